"""Whose failure is reported, when several workers end at about the same time."""

import pytest

from ddplaunch.output.lines import LastLines
from ddplaunch.report.blame import choose_stream, find_culprit, find_suspect, misses_peer
from ddplaunch.report.collect import name_culprit
from ddplaunch.report.model import ErrorFile, Failure, WorkerRecord
from ddplaunch.supervise.events import WorkerExited
from ddplaunch.supervise.state import State


def worker(rank: int, returncode: int | None, stopped: bool = False) -> WorkerRecord:
    return WorkerRecord(rank, rank, 0, "n0", 100 + rank, returncode, 1.0, stopped)


def raised(message: str) -> LastLines:
    return LastLines(["Traceback (most recent call last):", '  File "train.py", line 3', message])


VICTIM = raised("[rank0]: RuntimeError: [pair.cc:538] Connection closed by peer [127.0.0.1]:3371")
REASON = raised("ValueError: the real reason")
QUIET = LastLines(["step 5"])


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ({0: VICTIM, 1: REASON, 2: VICTIM}, 1),
        ({0: VICTIM, 1: VICTIM, 2: QUIET}, 0),  # nobody knows better
        ({0: REASON, 1: REASON, 2: REASON}, 0),
        ({0: QUIET, 1: REASON, 2: QUIET}, 0),  # it has not complained of anybody
        ({0: VICTIM, 1: QUIET, 2: LastLines(["a warning"], REASON.stderr)}, 2),
        ({}, 0),
    ],
)
def test_who_misses_a_peer_is_its_victim(words: dict[int, LastLines], culprit: int) -> None:
    workers = [worker(0, 1), worker(1, -15, stopped=True), worker(2, 1)]
    assert find_culprit(0, workers, words, {}, 10.0) == culprit


def test_who_ended_by_itself_is_preferred_and_who_succeeded_is_none() -> None:
    words = {0: VICTIM, 1: REASON, 2: REASON}
    assert find_culprit(0, [worker(0, 1), worker(1, -15, True), worker(2, 3)], words, {}, 10.0) == 2
    assert find_culprit(0, [worker(0, 1), worker(1, 0), worker(2, 3)], words, {}, 10.0) == 2


def test_the_first_recorded_exception_counts_if_it_came_before() -> None:
    workers = [worker(rank, 1) for rank in range(3)]
    reason = {rank: ErrorFile({"message": "boom"}, at) for rank, at in ((0, 9.9), (1, 9.5), (2, 9.7))}
    assert find_culprit(0, workers, {}, reason, 10.0) == 1
    assert find_culprit(0, workers, {}, reason, 9.0) == 0  # they were told to stop, and said so
    assert find_culprit(0, [worker(0, 1), worker(1, 0)], {}, {1: reason[1]}, 10.0) == 0
    # Killed, and seen a moment late: its peers had noticed it by then.
    killed = [worker(0, -9), worker(1, 1)]
    assert find_culprit(0, killed, {}, {1: ErrorFile({"message": VICTIM.stderr[-1]}, 9.5)}, 10.0) == 0


def test_a_node_without_a_failure_may_have_the_reason() -> None:
    workers = [worker(4, -15, True), worker(5, -15, True)]
    assert find_suspect(workers, {4: QUIET, 5: REASON}) == 5
    assert find_suspect(workers, {4: QUIET, 5: VICTIM}) is None


def test_a_traceback_on_stdout_is_preferred_to_a_warning_on_stderr() -> None:
    assert choose_stream(LastLines(["a warning"], REASON.stderr)) == (REASON.stderr, "stdout")
    assert choose_stream(LastLines(REASON.stderr, REASON.stderr))[1] == "stderr"
    assert choose_stream(LastLines(["", " "], ["bye"])) == (["bye"], "stdout")
    recovered = [*REASON.stderr, *(f"step {n}" for n in range(9))]
    assert choose_stream(LastLines(["train.py: error: no such file"], recovered))[1] == "stderr"
    assert misses_peer(LastLines([], VICTIM.stderr))


@pytest.mark.parametrize(
    ("line", "is_symptom"),
    [
        ("torch.distributed.DistNetworkError: failed to send, Broken pipe", True),
        ("Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server crash?", True),
        ("RuntimeError: [buf.cc:81] Timed out waiting 1800000ms for recv operation to complete", True),
        ("ncclRemoteError: A call failed possibly due to a network error or a remote process exiting", True),
        ("BrokenPipeError: [Errno 32] Broken pipe", False),  # of its own stdout
        ("TimeoutError: Timed out waiting for the data server", False),
        ("DistNetworkError: The server socket has failed to listen: EADDRINUSE", False),
    ],
)
def test_symptoms_are_about_peers(line: str, is_symptom: bool) -> None:
    assert misses_peer(raised(line)) is is_symptom


@pytest.mark.parametrize(
    ("culprit", "code"), [(worker(1, 3), 3), (worker(1, 3, True), 3), (worker(1, -15, True), 7)]
)
def test_the_exit_code_is_the_culprits_own_if_it_has_one(culprit: WorkerRecord, code: int) -> None:
    state = State(frozenset(), 1.0, cause=WorkerExited(0, 7, 1.0))
    named = name_culprit(state, Failure(culprit, (), "stderr", None)).cause
    assert named == WorkerExited(1, code, 1.0)
