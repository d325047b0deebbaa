"""From the end of supervision to a RunResult. [pure]"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ddplaunch.plan.model import LaunchPlan, WorkerSpec
from ddplaunch.report.model import AttemptRecord, Failure, RunResult, WorkerRecord
from ddplaunch.report.outcome import judge
from ddplaunch.supervise.state import State, WorkerExited


class Started(NamedTuple):
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


def failed_rank(state: State) -> int | None:
    return state.cause.rank if isinstance(state.cause, WorkerExited) else None


def collect_failure(
    state: State,
    attempt: AttemptRecord,
    rank: int,
    stderr: Sequence[str],
    stdout: Sequence[str],
    error_file: Mapping[str, Any] | None,
) -> Failure:
    """A worker that said nothing on stderr may have said it on stdout."""
    worker = next(worker for worker in attempt.workers if worker.rank == rank)
    tail, tail_from = (stderr, "stderr") if any(line.strip() for line in stderr) else (stdout, "stdout")
    passed_on = worker.returncode is not None and -worker.returncode in state.passed_on
    return Failure(worker, tuple(tail), tail_from, error_file, passed_on)


def collect_result(
    plan: LaunchPlan,
    state: State,
    attempts: tuple[AttemptRecord, ...],
    failure: Failure | None,
    started_at: float,
    seconds: float,
) -> RunResult:
    outcome = judge(state)
    return RunResult(
        run_id=plan.run_id,
        outcome=outcome.name,
        exit_code=outcome.exit_code,
        reason=outcome.reason,
        started_at=started_at,
        seconds=seconds,
        attempts=attempts,
        first_failure=failure,
    )
