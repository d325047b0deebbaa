"""What launch() raises. [pure]"""

from collections.abc import Sequence
from typing import Any


class LaunchFailed(RuntimeError):  # noqa: N818 - it reads as what happened
    """A launch that did not end well; `outcome` and `exit_code` are those of the command line's summary."""

    def __init__(self, reason: str, outcome: str, exit_code: int) -> None:
        super().__init__(reason)
        self.outcome, self.exit_code = outcome, exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return LaunchFailed, (str(self), self.outcome, self.exit_code)


class WorkerFailed(LaunchFailed):
    """The first worker that failed: its rank, its own traceback, and the last lines it wrote.

    Where the function raised, the exception itself is the `__cause__`.
    """

    def __init__(
        self, reason: str, exit_code: int, rank: int, traceback: str, last_lines: Sequence[str]
    ) -> None:
        text = traceback or "\n".join(last_lines)
        super().__init__(f"{reason}\n\n{text}".rstrip(), "worker-failed", exit_code)
        self.rank, self.traceback, self.last_lines = rank, traceback, tuple(last_lines)
        self._reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerFailed, (self._reason, self.exit_code, self.rank, self.traceback, self.last_lines)
