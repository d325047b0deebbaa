"""launch() on several nodes: each caller gets the results of its own ranks."""

import sys
from pathlib import Path

from tests.multihost.conftest import Nodes, codes

CALL = """
import os, sys
import ddplaunch

def work(x):
    return int(os.environ["RANK"]) * x

print(ddplaunch.launch(work, (10,), nproc_per_node=2, nnodes=2, node_rank=int(sys.argv[1]), master_addr="n0"))
"""


def test_each_node_has_its_own_results(nodes: Nodes, tmp_path: Path) -> None:
    script = tmp_path / "call.py"
    script.write_text(CALL)
    runs = [nodes.start_command(host, [sys.executable, str(script), str(host)]) for host in (0, 1)]
    assert codes(runs) == [0, 0], [run.err for run in runs]
    assert [run.out for run in runs] == ["[0, 10]\n", "[20, 30]\n"]
    assert [run.err for run in runs] == ["", ""]
