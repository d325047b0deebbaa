"""pdb under the launcher, on a real terminal."""

from pathlib import Path

import pytest

from tests.support.launcher import DDPLAUNCH
from tests.support.terminal import Terminal


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "debugged.py"
    path.write_text(
        "import os, readline\n"
        "secret = 6 * 7\n"
        "if os.environ['RANK'] == os.environ['DEBUGGED']: breakpoint()\n"
        "print(f\"rank {os.environ['RANK']} is done\")\n"
    )
    return str(path)


@pytest.mark.parametrize(
    ("options", "debugged", "workers"),
    [
        (["--nproc-per-node", "1"], 0, 1),
        (["--nproc-per-node", "3", "--interactive-rank", "0"], 0, 3),
        (["--nproc-per-node", "3", "--interactive-rank", "2"], 2, 3),
    ],
)
def test_the_prompt_works(
    environment: dict[str, str], script: str, options: list[str], debugged: int, workers: int
) -> None:
    """`import readline` in the other ranks must not stop them, either."""
    env = {**environment, "DEBUGGED": str(debugged), "TERM": "dumb"}
    terminal = Terminal([*DDPLAUNCH, *options, script], env)
    terminal.wait_for("(Pdb) ")
    for rank in set(range(workers)) - {debugged}:
        terminal.wait_for(f"[{rank}] rank {rank} is done")
    terminal.type("p secret + 1\n")
    terminal.wait_for("43")
    terminal.type("c\n")
    assert terminal.wait() == 0
    assert f"rank {debugged} is done" in terminal.seen


def test_a_rank_that_does_not_exist(environment: dict[str, str], script: str) -> None:
    command = [*DDPLAUNCH, "--nproc-per-node", "2", "--interactive-rank", "2", script]
    terminal = Terminal(command, environment)
    assert terminal.wait() == 2
    assert "--interactive-rank 2: there is no such rank" in terminal.seen
    assert "ranks are 0 to 1" in terminal.seen
