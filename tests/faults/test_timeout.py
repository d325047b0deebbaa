"""--timeout bounds the whole run."""

from collections.abc import Callable
from typing import Any

from tests.support.launcher import Run, worker

SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


def test_a_run_that_takes_too_long(summary_of: SummaryOf) -> None:
    run, summary = summary_of("--timeout", "1.5", "--nproc-per-node", "2", worker("on_signal"), "0")
    assert run.process.returncode == 124
    assert run.out.count("saved") == 2
    assert (summary["outcome"], summary["exit_code"]) == ("timeout", 124)
    assert "ddplaunch: --timeout was reached, after " in run.err


def test_restarts_do_not_give_more_time(summary_of: SummaryOf) -> None:
    arguments = ["--timeout", "1.5", "--max-restarts", "50", "--restart-backoff", "100"]
    run, summary = summary_of(*arguments, worker("fail"), "0", "exit3")
    assert run.process.returncode == 124
    assert len(summary["attempts"]) == 1
