"""Progress bars: real tqdm, a real terminal, pipes and files."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import DDPLAUNCH, Run
from tests.support.terminal import Terminal

Launch = Callable[..., Run]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "bars.py"
    path.write_text(
        "import os, time\n"
        "from tqdm import tqdm\n"
        "rank = int(os.environ['RANK'])\n"
        "for step in tqdm(range(40), desc=f'rank {rank}', mininterval=0, ascii=True):\n"
        "    if step == 20 and rank == 1: tqdm.write('a line in between')\n"
        "    time.sleep(0.02)\n"
    )
    return str(path)


class Screen:
    """What a terminal makes of it: rows of text, one of them being written over."""

    def __init__(self, written: str) -> None:
        self.rows = [""]
        self.states: list[str] = []  # of the row that was being written, at each return
        for token in re.split(r"(\r\n|\n|\r|\x1b\[K|\x1b\[[0-9;]*m)", written):
            if token in ("\n", "\r\n"):
                self.rows.append("")
            elif token == "\r":
                self.states.append(self.rows[-1])
            elif token == "\x1b[K":
                self.rows[-1] = ""
            elif not token.startswith("\x1b"):
                self.rows[-1] += token


def test_one_bar_animates_and_the_others_do_not_garble_it(environment: dict[str, str], script: str) -> None:
    terminal = Terminal([*DDPLAUNCH, "--nproc-per-node", "3", script], {**environment, "TERM": "xterm"})
    assert terminal.wait() == 0
    screen = Screen(terminal.seen)
    steps = {re.search(r"rank 0: +(\d+)%", state) for state in screen.states}
    assert len({step[1] for step in steps if step}) > 5
    assert "[1] a line in between" in screen.rows
    rows = [row for row in screen.rows if row]
    assert all(re.match(r"\[[012]\] (rank [012]: +\d+%\|.*|a line in between)", row) for row in rows), rows
    for rank in range(3):
        assert [row for row in rows if row.startswith(f"[{rank}] rank {rank}: 100%")], rows
    assert len(rows) <= 3 + 1 + 2  # tqdm itself leaves a state behind where it writes in between


def test_in_a_pipe_a_bar_leaves_its_last_state(launch: Launch, script: str) -> None:
    run = launch("--nproc-per-node", "2", script)
    assert run.wait() == 0
    bars = [line for line in run.err.splitlines() if "%" in line]
    assert len(bars) <= 4
    assert sorted(line[:14] for line in bars if "100%" in line) == ["[0] rank 0: 10", "[1] rank 1: 10"]
    assert "\r" not in run.err


def test_a_carriage_return_at_the_end_of_each_state(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "returns.py"
    path.write_text(
        "for n in range(1000): print('step', n, end='\\r')\nprint('done     ')\nprint('more', end='\\r')\n"
    )
    run = launch("--nproc-per-node", "2", str(path))
    assert run.wait() == 0
    assert sorted(line.rstrip() for line in run.out.split("\n") if line) == [
        "[0] done",
        "[0] more",
        "[1] done",
        "[1] more",
    ]


def test_a_bar_does_not_fill_the_memory_or_the_report(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "endless.py"
    path.write_text(
        "import os, sys\n"
        "for n in range(200000): sys.stderr.write(f'\\rstep {n}')\n"
        "sys.stderr.write('\\n')\n"
        "raise SystemExit('the reason')\n"
    )
    run = launch("--nproc-per-node", "2", str(path))
    assert run.wait() == 1
    block = run.err[run.err.index("ddplaunch: first failure") :].splitlines()
    assert block[-2:] == ["step 199999", "the reason"]


def test_a_bar_is_gone_from_the_terminal_when_it_is_over(environment: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "unfinished.py"
    path.write_text("import sys\nsys.stderr.write('\\r 10%\\r 20%'); sys.stderr.flush()\n")
    terminal = Terminal([*DDPLAUNCH, "--nproc-per-node", "2", str(path)], {**environment, "TERM": "xterm"})
    assert terminal.wait() == 0
    assert sorted(row for row in Screen(terminal.seen).rows if row) == ["[0]  20%", "[1]  20%"]
