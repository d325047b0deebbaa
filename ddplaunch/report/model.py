"""How a run went, as plain values. [pure]"""

from collections.abc import Mapping
from typing import Any

from ddplaunch.record import Record
from ddplaunch.report.stacks import Standing


class WorkerRecord(Record):
    rank: int
    local_rank: int
    node_rank: int
    host: str
    pid: int
    returncode: int | None  # as subprocess spells it; None: it could not be killed
    seconds: float
    stopped_by_launcher: bool

    @property
    def ended_itself(self) -> bool:
        """Whether its exit code is its own: it may have been on its way out when it was told to stop."""
        return not self.stopped_by_launcher or (self.returncode is not None and self.returncode > 0)


class AttemptRecord(Record):
    attempt: int
    seconds: float
    workers: tuple[WorkerRecord, ...]


class ErrorFile(Record):
    """What @record left, if it can be read, and when, by the loop's clock."""

    content: Mapping[str, Any] | None
    written_at: float


class Failure(Record):
    """The worker that failed first, and its own last words."""

    worker: WorkerRecord
    tail: tuple[str, ...]
    tail_from: str  # "stderr" or "stdout"
    error_file: Mapping[str, Any] | None  # what @record left
    note: str = ""  # who sent the signal that ended it
    same: tuple[int, ...] = ()  # ranks that ended with the same traceback


class RunResult(Record):
    run_id: str
    outcome: str  # as in the summary file
    exit_code: int
    reason: str
    started_at: float
    seconds: float
    attempts: tuple[AttemptRecord, ...] = ()
    first_failure: Failure | None = None
    log_dir: str | None = None
    splits_logs: bool = False  # a file per stream there
    standings: tuple[Standing, ...] = ()  # after a stall
    hint: str = ""
