"""What happens to an attempt, and what is done about it. [pure]"""

from collections.abc import Mapping

from ddplaunch.record import Record

# --- events: they have happened; `at` is monotonic time ---------------------------------------------


class Work(Record):
    """What a worker and all it started have done."""

    cpu_seconds: float
    moved_bytes: int  # read and written


class WorkerExited(Record):
    """`returncode` as subprocess spells it: negative for a signal."""

    rank: int
    returncode: int
    at: float


class SignalReceived(Record):
    signum: int
    at: float
    from_terminal: bool = False  # a worker in the terminal's foreground has got it, too


class DeadlinePassed(Record):
    at: float


class ProgressSampled(Record):
    """What the workers have done so far: work by family of processes, and when one last wrote something."""

    at: float
    work: Mapping[int, Work]
    output_at: float


class StopOrdered(Record):
    """Something happened on another node that ends the attempt here as well."""

    at: float
    text: str
    signum: int
    aborts: bool  # the whole run stalls: tell where everybody stands
    kills: bool  # somebody there is out of patience


Event = WorkerExited | SignalReceived | DeadlinePassed | ProgressSampled | StopOrdered


# --- causes: the event that ends an attempt ---------------------------------------------------------


class Stalled(Record):
    at: float
    silent_seconds: float


class TimedOut(Record):
    at: float


Cause = WorkerExited | SignalReceived | Stalled | TimedOut | StopOrdered


# --- actions ----------------------------------------------------------------------------------------


class SignalWorkers(Record):
    """To the workers themselves: a DataLoader child that dies first costs the checkpoint."""

    ranks: frozenset[int]
    signum: int
    from_terminal: bool = False


class AbortWorkers(Record):
    """SIGABRT: faulthandler prints the Python stacks of every thread, even of one stuck in C."""

    ranks: frozenset[int]


class KillWorkers(Record):
    """SIGKILL to the workers and all they started."""

    ranks: frozenset[int]


class ClearGroup(Record):
    """The worker is gone: kill what is left of its process group, before its id can be reused."""

    rank: int


class SampleProgress(Record):
    """Look how far the workers have come."""


class SuspendLauncher(Record):
    """Ctrl-Z: the workers have been stopped, now the launcher stops itself until SIGCONT."""


class Announce(Record):
    """Tell the user what is being waited for."""

    ranks: frozenset[int]
    signum: int | None  # what asked for the stop; None: still waiting
    kill_in: float  # seconds until SIGKILL


class Remark(Record):
    """Tell the user something else."""

    text: str


Action = (
    SignalWorkers
    | AbortWorkers
    | KillWorkers
    | ClearGroup
    | SampleProgress
    | SuspendLauncher
    | Announce
    | Remark
)
