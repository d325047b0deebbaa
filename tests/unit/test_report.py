"""The last block on the screen, and the summary file."""

import json
import signal

import pytest

from ddplaunch.report.collect import describe_sender
from ddplaunch.report.hints import find_hint
from ddplaunch.report.model import AttemptRecord, Failure, RunResult, WorkerRecord
from ddplaunch.report.outcome import judge
from ddplaunch.report.summary import render_summary
from ddplaunch.report.tails import MOST_LINES, choose_lines
from ddplaunch.report.text import render_report
from ddplaunch.supervise.events import Cause, SignalReceived, Stalled, TimedOut, WorkerExited
from ddplaunch.supervise.state import State
from ddplaunch.words import describe_exit, describe_ranks, describe_seconds


def record(rank: int, returncode: int | None, stopped: bool = True) -> WorkerRecord:
    return WorkerRecord(rank, rank, 0, "n0", 4000 + rank, returncode, 1.5, stopped)


TRACEBACK = (
    "Traceback (most recent call last):",
    '  File "train.py", line 3, in <module>',
    "    main()",
    "ValueError: boom",
)
FAILED = RunResult(
    run_id="r",
    outcome="worker-failed",
    exit_code=1,
    reason="rank 2: exit code 1",
    started_at=0.0,
    seconds=1.5,
    attempts=(
        AttemptRecord(0, 1.5, (record(0, -15), record(1, 0, False), record(2, 1, False), record(3, None))),
    ),
    first_failure=Failure(record(2, 1, False), ("a warning", *TRACEBACK), "stderr", None),
)


def test_the_block_says_who_and_ends_with_the_traceback() -> None:
    lines = render_report(FAILED).splitlines()
    assert lines[:4] == [
        "ddplaunch: first failure: rank 2, exit code 1, after 1.5 s",
        "  where:  node 0, host n0, pid 4002, local rank 2",
        "  others: rank 0 stopped by the launcher, rank 1 had finished before",
        "  left:   rank 3 (pid 4003) could not be killed (stuck in the kernel?)",
    ]
    assert tuple(lines[-4:]) == TRACEBACK


def test_a_foreign_signal_says_so() -> None:
    note = describe_sender(-9, (), 0)
    killed = FAILED._replace(first_failure=Failure(record(2, -9, False), (), "stderr", None, note))
    assert "rank 2, killed by SIGKILL, not sent by the launcher" in render_report(killed)


def test_out_of_memory_is_said_on_evidence_only() -> None:
    assert describe_sender(-9, (), 1).startswith("out of memory")
    assert describe_sender(-11, (), 1) == "not sent by the launcher"
    assert describe_sender(-10, {10}, 0) == "passed on by the launcher"
    assert describe_sender(1, (), 1) == ""


def test_fates_are_told_apart() -> None:
    workers = (record(0, 1, False), record(1, 1, False), record(2, -15), record(3, -9), record(4, 0, False))
    failed = FAILED._replace(
        attempts=(AttemptRecord(0, 1.5, workers),),
        first_failure=Failure(workers[0], (), "stderr", None),
    )
    assert render_report(failed).splitlines()[2] == (
        "  others: rank 1 failed too (exit code 1), rank 2 stopped by the launcher, "
        "rank 3 killed by the launcher, rank 4 had finished before"
    )


def test_success_is_silent() -> None:
    assert render_report(FAILED._replace(outcome="success")) == ""


@pytest.mark.parametrize(
    ("cause", "name", "code"),
    [
        (None, "success", 0),
        (WorkerExited(1, 7, 0.0), "worker-failed", 7),
        (WorkerExited(1, -9, 0.0), "worker-failed", 137),
        (SignalReceived(signal.SIGINT, 0.0), "interrupted", 130),
        (SignalReceived(signal.SIGTERM, 0.0), "interrupted", 143),
        (SignalReceived(signal.SIGHUP, 0.0), "interrupted", 129),
        (Stalled(9.0, 5.0), "stalled", 6),
        (TimedOut(9.0), "timeout", 124),
    ],
)
def test_outcomes(cause: Cause | None, name: str, code: int) -> None:
    outcome = judge(State(alive=frozenset(), grace_seconds=1, cause=cause))
    assert (outcome.name, outcome.exit_code) == (name, code)


def test_the_summary_has_the_fields_of_the_contract() -> None:
    summary = json.loads(render_summary(FAILED))
    assert list(summary) == [
        "run_id", "outcome", "exit_code", "reason", "started_at", "ended_at", "seconds", "attempts",
        "first_failure", "log_dir",
    ]  # fmt: skip
    worker = summary["attempts"][0]["workers"][0]
    assert (worker["exit_code"], worker["signal"], worker["stopped_by_launcher"]) == (143, 15, True)
    assert list(summary["first_failure"]) == [
        "rank", "local_rank", "node_rank", "host", "pid", "exit_code", "signal", "seconds",
        "tail", "error_file",
    ]  # fmt: skip
    assert summary["started_at"] == "1970-01-01T00:00:00.000+00:00"


def test_a_chain_of_exceptions_is_shown_whole() -> None:
    chain = [
        *TRACEBACK,
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        *TRACEBACK[:3],
        "KeyError: 'x'",
    ]
    assert choose_lines(["noise", *chain, ""]) == tuple(chain)


def test_an_old_traceback_is_not_mistaken_for_a_chain() -> None:
    lines = [*TRACEBACK, "recovered", *TRACEBACK]
    assert choose_lines(lines) == TRACEBACK


def test_what_python_says_while_it_ends_is_left_out() -> None:
    noise = ["Exception ignored in atexit callback: <function close>", *TRACEBACK[:3], "KeyError: 'noise'"]
    assert choose_lines([*TRACEBACK, *noise]) == TRACEBACK
    assert choose_lines(noise) == tuple(noise[1:])  # it is all there is


@pytest.mark.parametrize(
    "quoted",
    [
        ["FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.",
         "Original Traceback (most recent call last):", "  File", "FileNotFoundError: image_5.png"],
        ["ProcessRaisedException: ", "", "-- Process 1 terminated with the following error:", *TRACEBACK],
        ["  +-+---------------- 1 ----------------", "    | Traceback (most recent call last):",
         "    | ValueError: a", "    +---------------- 2 ----------------",
         "    | Traceback (most recent call last):", "    | KeyError: 'b'",
         "    +------------------------------------"],
    ],
)  # fmt: skip
def test_a_traceback_that_quotes_others_is_shown_whole(quoted: list[str]) -> None:
    lines = (*TRACEBACK[:3], *quoted)
    assert choose_lines(["noise", *lines]) == lines


def test_long_tracebacks_lose_their_middle() -> None:
    lines = ["Traceback (most recent call last):", *(f"  frame {n}" for n in range(200)), "RecursionError"]
    chosen = choose_lines(lines)
    assert len(chosen) == MOST_LINES + 1
    assert (chosen[0], chosen[-1]) == (lines[0], lines[-1])
    assert "lines left out" in chosen[10]


def test_words() -> None:
    assert describe_ranks([0, 1, 2, 5]) == "ranks 0-2, 5"
    assert describe_ranks([4]) == "rank 4"
    assert describe_exit(-11) == "killed by SIGSEGV (segmentation fault)"
    assert describe_exit(3) == "exit code 3"
    shown = [describe_seconds(s) for s in (0.123, 12.34, 59.99, 425, 12000)]
    assert shown == ["0.12 s", "12.3 s", "60.0 s", "7 min 5 s", "3 h 20 min"]


def test_classic_mistakes_get_a_hint() -> None:
    assert "--pass-local-rank" in find_hint(["train.py: error: unrecognized arguments: --local-rank=0"])
    assert find_hint(["ValueError: boom"]) == ""
    assert "another rank" in find_hint(["RuntimeError: [pair.cc:538] Connection closed by peer [::1]:9"])
    assert "--interactive-rank" in find_hint(["EOFError: EOF when reading a line"])
    assert "did not find the command" in find_hint(["sh: 1: nsys: not found"], 127)
    assert "may not execute" in find_hint([], 126)
