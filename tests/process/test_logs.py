"""--log-dir: everything every rank wrote, whole lines, one file per rank and attempt."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]
SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


@pytest.fixture
def chatty(tmp_path: Path) -> str:
    path = tmp_path / "chatty.py"
    path.write_text(
        "import os, sys\n"
        "for n in range(3000):\n"
        "    print('out', n, file=sys.stdout)\n"
        "    if n % 3 == 0: print('err', n, file=sys.stderr)\n"
    )
    return str(path)


@pytest.mark.parametrize("shown", ["all", "none", "1"])
def test_every_rank_has_its_file_whatever_is_shown(
    launch: Launch, chatty: str, tmp_path: Path, shown: str
) -> None:
    run = launch("--log-dir", str(tmp_path / "logs"), "--console", shown, "--nproc-per-node", "3", chatty)
    assert run.wait() == 0
    (directory,) = [path for path in (tmp_path / "logs").iterdir() if not path.is_symlink()]
    assert (tmp_path / "logs" / "latest").resolve() == directory
    assert sorted(path.name for path in (directory / "attempt_0").iterdir()) == [
        f"rank_{rank}.log" for rank in range(3)
    ]
    for rank in range(3):
        lines = (directory / "attempt_0" / f"rank_{rank}.log").read_text().splitlines()
        assert [line for line in lines if "out" in line] == [f"out {n}" for n in range(3000)]
        assert [line for line in lines if "err" in line] == [f"err {n}" for n in range(0, 3000, 3)]
        assert len(lines) == 4000


def test_a_single_worker_is_logged_and_shown_plainly(launch: Launch, tmp_path: Path) -> None:
    run = launch("--log-dir", str(tmp_path / "logs"), worker("hello"))
    assert run.wait() == 0
    assert run.out.startswith("ready pid=")
    assert (tmp_path / "logs" / "latest" / "attempt_0" / "rank_0.log").read_text() == run.out


def test_attempts_and_runs_do_not_overwrite_each_other(launch: Launch, tmp_path: Path) -> None:
    options = ["--log-dir", str(tmp_path / "logs"), "--max-restarts", "2", "--nproc-per-node", "2"]
    for _ in range(2):
        assert launch(*options, worker("flaky"), "1").wait() == 0
    runs = [path for path in (tmp_path / "logs").iterdir() if not path.is_symlink()]
    assert len(runs) == 2
    for run in runs:
        for attempt in range(2):
            text = (run / f"attempt_{attempt}" / "rank_1.log").read_text()
            assert text.startswith(f"worker 1 {attempt} {attempt} 2 ")


def test_the_report_and_the_summary_say_where_they_are(summary_of: SummaryOf, tmp_path: Path) -> None:
    logs = str(tmp_path / "logs")
    run, summary = summary_of("--log-dir", logs, "--nproc-per-node", "3", worker("fail"), "2", "raise")
    assert summary["log_dir"] == os.path.join(logs, summary["run_id"])
    path = f"{summary['log_dir']}/attempt_0/rank_2.log"
    assert f"  logs:   {path}\n" in run.err
    assert "ValueError: boom in rank 2" in Path(path).read_text()


def test_rotation_keeps_whole_lines_and_little_of_the_disk(
    launch: Launch, chatty: str, tmp_path: Path
) -> None:
    options = ["--log-dir", str(tmp_path / "logs"), "--log-max-bytes", "5000", "--nproc-per-node", "2"]
    assert launch(*options, chatty).wait() == 0
    directory = tmp_path / "logs" / "latest" / "attempt_0"
    for rank in range(2):
        old, new = directory / f"rank_{rank}.log.1", directory / f"rank_{rank}.log"
        assert max(old.stat().st_size, new.stat().st_size) <= 5000
        kept = [line for line in (old.read_text() + new.read_text()).splitlines() if "out" in line]
        assert kept == [f"out {n}" for n in range(3000 - len(kept), 3000)]


def test_a_line_longer_than_a_file_has_one_of_its_own(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text("print('short'); print('x' * 5000); print('end')")
    options = ["--log-dir", str(tmp_path / "logs"), "--log-max-bytes", "100", "--nproc-per-node", "2"]
    assert launch(*options, str(script)).wait() == 0
    directory = tmp_path / "logs" / "latest" / "attempt_0"
    assert (directory / "rank_0.log.1").read_text() == "x" * 5000 + "\n"
    assert (directory / "rank_0.log").read_text() == "end\n"


def test_bars_leave_their_last_state(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "bar.py"
    script.write_text(
        "import sys\nfor n in range(5000): sys.stderr.write(f'\\r{n}')\nprint('end', file=sys.stderr)\n"
    )
    assert launch("--log-dir", str(tmp_path / "logs"), "--nproc-per-node", "2", str(script)).wait() == 0
    assert (tmp_path / "logs" / "latest" / "attempt_0" / "rank_1.log").read_text() == "4999end\n"


def test_a_directory_that_cannot_be_written_is_told_once(launch: Launch, chatty: str, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file, where a directory should be")
    run = launch("--log-dir", str(tmp_path / "logs"), "--nproc-per-node", "3", chatty)
    assert run.wait() == 0
    assert run.err.count("ddplaunch: note: cannot write") == 1
    assert "training goes on" in run.err
    assert len(run.out.splitlines()) == 9000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small disk")
def test_a_full_disk_is_told_once_and_training_goes_on(
    launch: Launch, chatty: str, tmp_path: Path, environment: dict[str, str]
) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk], check=True)
    try:
        run = launch("--log-dir", str(disk / "logs"), "--nproc-per-node", "3", chatty)
        assert run.wait() == 0
        assert run.err.count("no space left on device; training goes on") == 1
        assert len(run.out.splitlines()) == 9000
    finally:
        subprocess.run(["umount", disk], check=True)
