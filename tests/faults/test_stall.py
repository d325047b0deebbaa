"""Workers that get nowhere: where each of them stands, and exit 6."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]
SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


def line_of(path: str, text: str) -> int:
    return next(n for n, line in enumerate(Path(path).read_text().splitlines(), 1) if text in line)


@pytest.mark.torch
def test_the_sleeper_among_workers_in_all_reduce_is_named(summary_of: SummaryOf) -> None:
    script = worker("asleep")
    run, summary = summary_of("--stall-timeout", "5", "--nproc-per-node", "3", script)
    assert run.process.returncode == 6, run.err
    waiting = line_of(script, "dist.all_reduce(batch)")
    sleeping = line_of(script, "time.sleep(600)")
    block = run.err[run.err.index("ddplaunch: stalled") :].splitlines()
    assert block[0].startswith("ddplaunch: stalled: no output and next to no CPU use for ")
    assert block[1:4] == [
        f"  ranks 0-1: all_reduce, asleep.py:{waiting}",
        f"  rank 2: load_batch, asleep.py:{sleeping}",
        "  hint:   look at rank 2 first: the others wait",
    ]
    assert f'  File "{script}", line {sleeping}, in load_batch' in block
    assert (summary["outcome"], summary["exit_code"]) == ("stalled", 6)
    assert f"rank 2: load_batch, asleep.py:{sleeping}" in summary["reason"]


def test_workers_that_compute_or_talk_are_not_stalled(launch: Launch, tmp_path: Path) -> None:
    """One counts silently, the other prints and sleeps: three timeouts long."""
    script = tmp_path / "busy.py"
    script.write_text(
        "import os, time\nend = time.monotonic() + 6\n"
        "while time.monotonic() < end:\n"
        "    if os.environ['RANK'] == '1': print('still here'); time.sleep(0.5)\n"
    )
    run = launch("--stall-timeout", "2", "--nproc-per-node", "2", str(script))
    assert run.wait() == 0, run.err


def test_a_single_worker_that_prints_is_not_stalled(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "prints.py"
    script.write_text("import time\nfor n in range(12): print(n); time.sleep(0.25)\n")
    run = launch("--stall-timeout", "1", str(script))
    assert run.wait() == 0, run.err
    assert run.out.split() == [str(n) for n in range(12)]


def test_a_reader_that_does_not_read_is_not_the_workers_fault(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "chatty.py"
    script.write_text("for n in range(30000): print('line', n, 'x' * 80)\n")
    read, write = os.pipe()
    run = launch("--stall-timeout", "1", "--nproc-per-node", "2", str(script), stdout=write)
    os.close(write)
    try:
        run.process.wait(4)  # four timeouts without a reader
        raise AssertionError(run.err)
    except subprocess.TimeoutExpired:
        pass
    with open(read, "rb") as reader:
        assert reader.read().count(b"\n") == 60000
    assert run.wait() == 0


def test_a_stalled_run_may_start_again(summary_of: SummaryOf, tmp_path: Path) -> None:
    script = tmp_path / "sometimes.py"
    script.write_text("import os, time\nif os.environ['DDPLAUNCH_ATTEMPT'] == '0': time.sleep(600)\n")
    options = ["--stall-timeout", "1", "--max-restarts", "1", "--nproc-per-node", "2"]
    run, summary = summary_of(*options, str(script))
    assert run.process.returncode == 0, json.dumps(summary)
    assert [attempt["attempt"] for attempt in summary["attempts"]] == [0, 1]
    assert "ranks 0-1: <module>, sometimes.py:2" in run.err
    assert "ddplaunch: restart 1 of 1: all workers start again" in run.err
