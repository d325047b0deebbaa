"""What happens to an attempt, and what is done about it. [pure]"""

from collections.abc import Mapping
from typing import NamedTuple

# --- events: they have happened; `at` is monotonic time ---------------------------------------------


class WorkerExited(NamedTuple):
    """`returncode` as subprocess spells it: negative for a signal."""

    rank: int
    returncode: int
    at: float


class SignalReceived(NamedTuple):
    signum: int
    at: float
    from_terminal: bool = False  # a worker in the terminal's foreground has got it, too


class DeadlinePassed(NamedTuple):
    at: float


class ProgressSampled(NamedTuple):
    """What the workers have done so far: CPU time by rank, and when one last wrote something."""

    at: float
    cpu_seconds: Mapping[int, float]
    output_at: float


Event = WorkerExited | SignalReceived | DeadlinePassed | ProgressSampled


# --- causes: the event that ends an attempt ---------------------------------------------------------


class Stalled(NamedTuple):
    at: float
    silent_seconds: float


class TimedOut(NamedTuple):
    at: float


Cause = WorkerExited | SignalReceived | Stalled | TimedOut


# --- actions ----------------------------------------------------------------------------------------


class SignalWorkers(NamedTuple):
    """To the workers themselves: a DataLoader child that dies first costs the checkpoint."""

    ranks: frozenset[int]
    signum: int
    from_terminal: bool = False


class AbortWorkers(NamedTuple):
    """SIGABRT: faulthandler prints the Python stacks of every thread, even of one stuck in C."""

    ranks: frozenset[int]


class KillWorkers(NamedTuple):
    """SIGKILL to the workers and all they started."""

    ranks: frozenset[int]


class ClearGroup(NamedTuple):
    """The worker is gone: kill what is left of its process group, before its id can be reused."""

    rank: int


class SampleProgress(NamedTuple):
    """Look how far the workers have come."""


class Announce(NamedTuple):
    """Tell the user what is being waited for."""

    ranks: frozenset[int]
    signum: int | None  # what asked for the stop; None: still waiting
    kill_in: float  # seconds until SIGKILL


Action = SignalWorkers | AbortWorkers | KillWorkers | ClearGroup | SampleProgress | Announce
