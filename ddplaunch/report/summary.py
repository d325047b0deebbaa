"""The run as --summary-json writes it. [pure]"""

import json
from datetime import datetime, timezone
from typing import Any

from ddplaunch.report.model import AttemptRecord, Failure, RunResult, WorkerRecord
from ddplaunch.report.tails import choose_lines
from ddplaunch.words import exit_code_of


def render_summary(result: RunResult) -> str:
    document = {
        "run_id": result.run_id,
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "reason": result.reason,
        "started_at": _timestamp(result.started_at),
        "ended_at": _timestamp(result.started_at + result.seconds),
        "seconds": round(result.seconds, 3),
        "attempts": [_attempt(attempt) for attempt in result.attempts],
        "first_failure": None if result.first_failure is None else _failure(result.first_failure),
        "log_dir": result.log_dir,
    }
    return json.dumps(document, indent=2) + "\n"


def render_error(result: RunResult, failure: Failure) -> str:
    """The first failure as torch's @record writes it."""
    if failure.error_file is not None:
        return json.dumps(dict(failure.error_file))
    lines = choose_lines(failure.tail)
    extra = {"py_callstack": "\n".join(lines), "timestamp": str(int(result.started_at + result.seconds))}
    message = lines[-1] if lines else result.reason
    return json.dumps({"message": {"message": message, "extraInfo": extra}})


def _attempt(attempt: AttemptRecord) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "seconds": round(attempt.seconds, 3),
        "workers": [
            {**_worker(worker), "stopped_by_launcher": worker.stopped_by_launcher}
            for worker in attempt.workers
        ],
    }


def _failure(failure: Failure) -> dict[str, Any]:
    error_file = None if failure.error_file is None else dict(failure.error_file)
    return {**_worker(failure.worker), "tail": list(failure.tail), "error_file": error_file}


def _worker(worker: WorkerRecord) -> dict[str, Any]:
    returncode = worker.returncode
    return {
        "rank": worker.rank,
        "local_rank": worker.local_rank,
        "node_rank": worker.node_rank,
        "host": worker.host,
        "pid": worker.pid,
        "exit_code": None if returncode is None else exit_code_of(returncode),
        "signal": -returncode if returncode is not None and returncode < 0 else None,
        "seconds": round(worker.seconds, 3),
    }


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
