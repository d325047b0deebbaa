"""Two lines in a script on every node: who is early for the second run does not disturb the first."""

import os
import signal
from pathlib import Path

from tests.multihost.conftest import Nodes, codes
from tests.support.processes import is_alive, read_of, wait_until

WAIT_FOR_FILE = """
import os, sys, time
print(f"ready pid={os.getpid()}", flush=True)
while not os.path.exists(sys.argv[1] + os.environ["NODE_RANK"]):
    time.sleep(0.02)
"""


def test_a_node_that_is_early_for_the_next_run_waits_for_it(nodes: Nodes, tmp_path: Path) -> None:
    script, files = tmp_path / "train.py", tmp_path / "go"
    script.write_text(WAIT_FOR_FILE)
    first = nodes.start_all("--heartbeat-timeout", "100", str(script), str(files))
    (sleeper,) = first[1].wait_ready(1)
    for node in (1, 2):
        files.with_name(f"go{node}").touch()
    wait_until(lambda: not is_alive(sleeper) and is_at_rest(first[1].pid), "node 1 waits for the others")
    os.kill(first[1].pid, signal.SIGSTOP)  # it will be slow to hear of the end
    files.with_name("go0").touch()
    assert first[2].wait() == 0
    second = [nodes.start(2, str(script), str(files))]
    second[0].wait_for("the run before is still ending there")
    assert first[0].process.poll() is None
    os.kill(first[1].pid, signal.SIGCONT)
    assert codes(first) == [0, 0, 0]
    second += [nodes.start(node, str(script), str(files)) for node in (0, 1)]
    assert codes(second) == [0, 0, 0]
    assert all("ready pid=" in run.out for run in second)


def is_at_rest(pid: int) -> bool:
    return all(read_of(pid, "stat").rpartition(")")[2].split()[:1] == ["S"] for _ in range(200))
