"""checkpoint.py SECONDS FILE: a worker with a helper; asked to stop, it saves for a while.

The helper is what a DataLoader's worker is: a child in the worker's process group that dies when signalled.
"""

import os
import signal
import subprocess
import sys
import time

from meet import announce_all

seconds, path = float(sys.argv[1]), sys.argv[2] + os.environ["RANK"]
helper = subprocess.Popen(["sleep", "600"])


def save(signum: int, frame: object) -> None:
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, lambda *_: print("signalled again"))
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(0.05)
    with open(path, "w") as file:
        file.write("helper alive" if helper.poll() is None else "helper dead")
    print(f"saved on {signal.Signals(signum).name}")
    sys.exit(0)


for stopping in (signal.SIGINT, signal.SIGTERM):
    signal.signal(stopping, save)
announce_all()
while True:
    signal.pause()
