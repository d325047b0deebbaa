"""From the end of supervision to a RunResult. [pure]"""

import signal
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ddplaunch.output.lines import LastLines
from ddplaunch.plan.model import LaunchPlan, WorkerSpec
from ddplaunch.record import Record
from ddplaunch.report.blame import choose_stream, find_culprit, find_suspect
from ddplaunch.report.model import AttemptRecord, ErrorFile, Failure, RunResult, WorkerRecord
from ddplaunch.report.outcome import judge
from ddplaunch.report.stacks import group_standings
from ddplaunch.report.tails import is_same_traceback
from ddplaunch.supervise.events import Stalled, StopOrdered, WorkerExited
from ddplaunch.supervise.state import State


class Started(Record):
    """A worker as it was started."""

    spec: WorkerSpec
    pid: int
    started_at: float


def collect_attempt(
    plan: LaunchPlan, state: State, started: Sequence[Started], number: int, ended_at: float
) -> AttemptRecord:
    exits = {event.rank: event for event in state.exits}
    workers = tuple(
        WorkerRecord(
            rank=one.spec.rank,
            local_rank=one.spec.local_rank,
            node_rank=one.spec.node_rank,
            host=plan.host,
            pid=one.pid,
            returncode=exits[one.spec.rank].returncode if one.spec.rank in exits else None,
            seconds=(exits[one.spec.rank].at if one.spec.rank in exits else ended_at) - one.started_at,
            stopped_by_launcher=one.spec.rank in state.stopped,
        )
        for one in started
    )
    begun = min((one.started_at for one in started), default=ended_at)
    return AttemptRecord(number, ended_at - begun, workers)


def failed_rank(
    state: State, attempt: AttemptRecord, words: Mapping[int, LastLines], errors: Mapping[int, ErrorFile]
) -> int | None:
    """Whose failure to report; `words` are what the workers had said when the attempt began to end."""
    match state.cause:
        case WorkerExited(rank=rank, at=at):
            return find_culprit(rank, attempt.workers, words, errors, at)
        case StopOrdered(aborts=False):
            return find_suspect(attempt.workers, words)
    return None


def collect_failure(
    state: State,
    attempt: AttemptRecord,
    rank: int,
    last_lines: Mapping[int, LastLines],
    error_file: Mapping[str, Any] | None,
    oom_kills: int,
) -> Failure:
    worker = next(worker for worker in attempt.workers if worker.rank == rank)
    tail, tail_from = choose_stream(last_lines[rank])
    note = describe_sender(worker.returncode, state.passed_on, oom_kills)
    if not worker.ended_itself:
        note = "stopped by the launcher while it ended"
    failed_too = [other.rank for other in attempt.workers if other.rank != rank and other.returncode]
    same = tuple(rank for rank in failed_too if is_same_traceback(tail, last_lines[rank].stderr))
    return Failure(worker, tuple(tail), tail_from, error_file, note, same)


def describe_sender(returncode: int | None, passed_on: Collection[int], oom_kills: int) -> str:
    """Who sent the signal that ended a worker, as far as there is evidence."""
    if returncode is None or returncode >= 0:
        return ""
    if -returncode in passed_on:
        return "passed on by the launcher"
    if -returncode == signal.SIGKILL and oom_kills > 0:
        return "out of memory: the kernel's oom_kill counter of this cgroup moved"
    return "not sent by the launcher"


def collect_result(
    plan: LaunchPlan,
    state: State,
    attempts: tuple[AttemptRecord, ...],
    failure: Failure | None,
    stderr: Mapping[int, Sequence[str]],
    started_at: float,
    seconds: float,
) -> RunResult:
    is_stall = isinstance(state.cause, Stalled) or (
        isinstance(state.cause, StopOrdered) and state.cause.aborts
    )
    standings = group_standings(stderr) if is_stall else ()
    outcome = judge(name_culprit(state, failure), standings)
    return RunResult(
        run_id=plan.run_id,
        outcome=outcome.name,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        started_at=started_at,
        seconds=seconds,
        attempts=attempts,
        first_failure=failure,
        log_dir=plan.log_directory,
        splits_logs=plan.splits_logs,
        standings=standings,
    )


def name_culprit(state: State, failure: Failure | None) -> State:
    """Who is reported is the cause. If it was told to stop while it ended, its code is not its own."""
    cause = state.cause
    if failure is None or not isinstance(cause, WorkerExited) or failure.worker.rank == cause.rank:
        return state
    worker = failure.worker
    code = worker.returncode if worker.ended_itself and worker.returncode else cause.returncode
    return state._replace(cause=cause._replace(rank=worker.rank, returncode=code))
