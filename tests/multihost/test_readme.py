"""The README's lines for several machines, run as written, each on a machine of its own."""

import os
import sys
from pathlib import Path

from tests.multihost.conftest import Nodes, codes
from tests.process.test_readme import plain_commands


def run_lines(nodes: Nodes, environment: dict[str, str], directory: Path, lines: list[str]) -> list[str]:
    """Each line on a host of its own; what the workers say they are."""
    (directory / "train.py").write_text("import os\nprint('worker', os.environ['RANK'])\n")
    env = {"PATH": os.path.dirname(sys.executable) + os.pathsep + environment["PATH"]}
    runs = [
        nodes.start_command(number, ["sh", "-c", line], env, directory) for number, line in enumerate(lines)
    ]
    assert codes(runs) == [0] * len(runs)
    return sorted(word for run in runs for word in run.out.split() if word.isdigit())


def test_the_lines_for_two_machines(nodes: Nodes, environment: dict[str, str], tmp_path: Path) -> None:
    """Node 0 has the address 192.168.0.1 here, too."""
    lines = [line for line in plain_commands() if "--nnodes 2 " in line and line.startswith("ddplaunch")]
    assert len(lines) == 2
    assert run_lines(nodes, environment, tmp_path, lines) == sorted(map(str, range(16)))


def test_the_line_for_machines_that_come_and_go(
    nodes: Nodes, environment: dict[str, str], tmp_path: Path
) -> None:
    (line,) = [line for line in plain_commands() if "--nnodes 2:3" in line]
    assert run_lines(nodes, environment, tmp_path, [line] * 3) == sorted(map(str, range(24)))
