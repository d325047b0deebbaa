"""How a run went, as plain values. [pure]"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ddplaunch.report.stacks import Standing


class WorkerRecord(NamedTuple):
    rank: int
    local_rank: int
    node_rank: int
    host: str
    pid: int
    returncode: int | None  # as subprocess spells it; None: it could not be killed
    seconds: float
    stopped_by_launcher: bool


class AttemptRecord(NamedTuple):
    attempt: int
    seconds: float
    workers: tuple[WorkerRecord, ...]


class Failure(NamedTuple):
    """The worker that failed first, and its own last words."""

    worker: WorkerRecord
    tail: tuple[str, ...]
    tail_from: str  # "stderr" or "stdout"
    error_file: Mapping[str, Any] | None  # what @record left
    note: str = ""  # who sent the signal that ended it


class RunResult(NamedTuple):
    run_id: str
    outcome: str  # as in the summary file
    exit_code: int
    reason: str
    started_at: float
    seconds: float
    attempts: tuple[AttemptRecord, ...] = ()
    first_failure: Failure | None = None
    log_dir: str | None = None
    standings: tuple[Standing, ...] = ()  # after a stall
