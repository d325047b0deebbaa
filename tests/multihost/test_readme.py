"""The README's lines for several machines, run as written, each on a machine of its own."""

import os
import sys
from pathlib import Path

from tests.multihost.conftest import Nodes, codes
from tests.process.test_readme import plain_commands


def test_the_lines_for_two_machines(nodes: Nodes, environment: dict[str, str], tmp_path: Path) -> None:
    """Node 0 has the address 192.168.0.1 here, too."""
    (tmp_path / "train.py").write_text("import os\nprint('worker', os.environ['RANK'])\n")
    lines = [line for line in plain_commands() if "--nnodes" in line]
    assert len(lines) == 2
    env = {"PATH": os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]}
    runs = [
        nodes.start_command(number, ["sh", "-c", line], env, tmp_path) for number, line in enumerate(lines)
    ]
    assert codes(runs) == [0, 0]
    assert sorted(word for run in runs for word in run.out.split() if word.isdigit()) == sorted(
        map(str, range(16))
    )
