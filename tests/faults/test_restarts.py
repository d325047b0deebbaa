"""Restarts: all workers together, the old ones gone first, on the same port."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker
from tests.support.processes import is_alive

Launch = Callable[..., Run]
SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


def test_attempts_until_one_succeeds(summary_of: SummaryOf) -> None:
    run, summary = summary_of("--max-restarts", "3", "--nproc-per-node", "2", worker("flaky"), "2")
    assert run.process.returncode == 0
    lines = sorted(line.split()[2:] for line in run.out.splitlines() if "worker" in line)
    ports = {line.pop() for line in lines}
    assert lines == [[rank, attempt, attempt, "3"] for rank in "01" for attempt in "012"]
    assert len(ports) == 1
    codes = [[one["exit_code"] for one in attempt["workers"]] for attempt in summary["attempts"]]
    assert codes == [[143, 5], [143, 5], [0, 0]]
    assert (summary["outcome"], summary["first_failure"]) == ("success", None)
    assert run.err.count("first failure: rank 1, exit code 5") == 2
    assert "ddplaunch: restart 2 of 3: all workers start again" in run.err


def test_a_hundred_restarts_do_not_run_out_of_descriptors(launch: Launch, tmp_path: Path) -> None:
    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    script = tmp_path / "again.py"
    script.write_text("import os, sys\nsys.exit(os.environ['DDPLAUNCH_ATTEMPT'] != '100')\n")
    run = launch("--max-restarts", "100", "--nproc-per-node", "2", str(script), preexec_fn=limit)
    assert run.wait() == 0, run.err[-2000:]
    assert run.err.count("all workers start again") == 100


def test_when_no_attempt_is_left(summary_of: SummaryOf) -> None:
    run, summary = summary_of("--max-restarts", "2", "--nproc-per-node", "2", worker("flaky"), "99")
    assert run.process.returncode == 5
    assert len(summary["attempts"]) == 3
    assert summary["first_failure"]["rank"] == 1


def test_a_failure_right_after_the_start_is_not_retried(summary_of: SummaryOf) -> None:
    run, summary = summary_of(
        "--max-restarts", "9", "--min-uptime", "60", "--nproc-per-node", "2", worker("flaky"), "1"
    )
    assert run.process.returncode == 5
    assert len(summary["attempts"]) == 1


def test_the_old_ones_are_gone_first(launch: Launch, tmp_path: Path) -> None:
    """A port that every worker of an attempt takes for itself, and never gives back alive."""
    script = tmp_path / "exclusive.py"
    script.write_text(
        "import fcntl, os, signal, subprocess, sys\n"
        "lock = open(sys.argv[1] + os.environ['RANK'], 'w')\n"
        "os.set_inheritable(lock.fileno(), True)\n"
        "fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "subprocess.Popen(['sleep', '600'], close_fds=False, start_new_session=True)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.environ['DDPLAUNCH_ATTEMPT'] == '3': os.kill(os.getppid(), signal.SIGINT)\n"
        "elif os.environ['RANK'] == '0': sys.exit(1)\n"
        "signal.pause()\n"
    )
    options = ["--max-restarts", "3", "--grace", "0.2", "--nproc-per-node", "2"]
    run = launch(*options, str(script), str(tmp_path / "lock"))
    assert run.wait() == 130
    assert "BlockingIOError" not in run.err


def test_ctrl_c_while_waiting_for_the_next_attempt(launch: Launch) -> None:
    run = launch(
        "--max-restarts", "3", "--restart-backoff", "500", "--nproc-per-node", "2", worker("flaky"), "9"
    )
    run.wait_for("restart 1 of 3 in 8 min 20 s")
    run.send(signal.SIGUSR1)  # nobody to pass it on to, and no reason to stop
    run.send(signal.SIGINT)
    assert run.wait() == 130


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_while_a_failed_attempt_is_stopping_ends_the_run(
    launch: Launch, tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    summary = tmp_path / "end.json"
    options = ["--max-restarts", "5", "--nproc-per-node", "2", "--summary-json", str(summary)]
    run = launch(*options, worker("checkpoint"), "2.5", str(tmp_path / "saved"))
    pids = run.wait_ready(2)
    os.kill(pids[0], signal.SIGKILL)
    run.wait_for("ddplaunch: waiting for rank")
    run.send(signum)
    assert run.wait() == code
    assert run.out.count("saved on SIGTERM") == 1
    found = json.loads(summary.read_text())
    assert (found["outcome"], len(found["attempts"])) == ("interrupted", 1)
    assert found["first_failure"]["signal"] == 9


@pytest.mark.programs
def test_an_attempt_that_cannot_be_started_leaves_the_last_result(
    summary_of: SummaryOf, tmp_path: Path
) -> None:
    program = tmp_path / "once.sh"
    program.write_text('#!/bin/sh\nrm -f "$0"\nexit 3\n')
    program.chmod(0o755)
    run, summary = summary_of("--max-restarts", "2", "--no-python", str(program))
    assert run.process.returncode == 3
    assert (summary["outcome"], summary["exit_code"], len(summary["attempts"])) == ("worker-failed", 3, 1)
    assert "restart failed: cannot start rank 0" in summary["reason"]
    assert "ddplaunch: error: cannot start rank 0" in run.err
    assert run.err.count("first failure: rank 0, exit code 3") == 2


def test_why_there_is_no_restart_is_said(launch: Launch) -> None:
    run = launch("--max-restarts", "9", "--min-uptime", "60", "--nproc-per-node", "2", worker("flaky"), "1")
    assert run.wait() == 5
    assert "ddplaunch: note: no restart: it failed within --min-uptime 60 s of its start" in run.err


def test_a_worker_killed_from_outside_is_replaced(launch: Launch) -> None:
    run = launch("--max-restarts", "1", "--nproc-per-node", "2", worker("sleep"))
    first = run.wait_ready(2)
    os.kill(first[0], signal.SIGKILL)
    second = run.wait_ready(4)[2:]
    assert not any(is_alive(pid) for pid in first)
    assert all(is_alive(pid) for pid in second)
    run.send(signal.SIGTERM)
    assert run.wait() == 143


@pytest.mark.slow
@pytest.mark.torch
def test_restarts_in_a_row_meet_cleanly(launch: Launch, tmp_path: Path, preload: str | None) -> None:
    """A fresh store on the same port every time; each attempt fails after its first all_reduce."""
    restarts = 10 if preload is None else 100
    script = tmp_path / "again.py"
    script.write_text(
        "import os, sys, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.ones(1)\n"
        "dist.all_reduce(total)\n"
        "print('met', int(total.item()), 'in attempt', os.environ['DDPLAUNCH_ATTEMPT'])\n"
        "dist.barrier()\n"
        "# without gloo's teardown, which may crash:\n"
        "os._exit(int(os.environ['DDPLAUNCH_ATTEMPT']) < int(sys.argv[1]))\n"
    )
    run = launch("--max-restarts", str(restarts), "--nproc-per-node", "2", str(script), str(restarts))
    assert run.wait(600) == 0, run.err[-3000:]
    met = {line.rpartition(" ")[2] for line in run.out.splitlines() if "met 2 in attempt" in line}
    assert met == {str(attempt) for attempt in range(restarts + 1)}
