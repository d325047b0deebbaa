"""family.py sleep|fail|succeed [naked]: a worker with a child, a child in a session of its own, and a daemon.

`naked` starts the daemon without any environment. Rank 0 exits 7 for `fail`, when all workers are there.
"""

import os
import signal
import subprocess
import sys

from meet import announce_all


def start_child(*, new_session: bool) -> int:
    return subprocess.Popen(["sleep", "600"], start_new_session=new_session).pid


DAEMON = """
import subprocess
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(["sleep", "600"], start_new_session=True, **quiet).pid)
"""


def start_daemon(env: dict[str, str] | None) -> int:
    """Its parent is gone, its session its own."""
    command = [sys.executable, "-c", DAEMON]
    done = subprocess.run(command, env=env, start_new_session=True, stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


how, options = sys.argv[1], sys.argv[2:]
daemon = start_daemon({} if "naked" in options else None)
for pid in (start_child(new_session=False), start_child(new_session=True), daemon):
    print(f"ready pid={pid}")
announce_all()
if how == "succeed":
    sys.exit(0)
if how == "fail" and os.environ["RANK"] == "0":
    sys.exit(7)
while True:
    signal.pause()
