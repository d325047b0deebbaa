"""Whether a failed attempt is followed by another one. [pure]"""

from ddplaunch.record import Record
from ddplaunch.supervise.events import Cause, Stalled, WorkerExited

LONGEST_BACKOFF_SECONDS = 300.0  # doubling ends here


class RestartPolicy(Record):
    max_restarts: int
    min_uptime_seconds: float
    backoff_seconds: float  # before the first restart; doubled for every further one


def is_mishap(cause: Cause | None) -> bool:
    """Whoever asked for the end by a signal or --timeout gets it."""
    return isinstance(cause, WorkerExited | Stalled)


def plan_restart(policy: RestartPolicy, may_retry: bool, attempt: int) -> float | None:
    """Seconds to wait before the next attempt, or None: it is over."""
    if not may_retry or attempt >= policy.max_restarts:
        return None
    most = max(policy.backoff_seconds, LONGEST_BACKOFF_SECONDS)
    return float(min(policy.backoff_seconds * 2 ** min(attempt, 30), most))


def find_obstacle(policy: RestartPolicy, uptime: float, is_clear: bool) -> str:
    """Why there is no restart although there may be one; empty when nothing is in its way."""
    if uptime < policy.min_uptime_seconds:
        return f"it failed within --min-uptime {policy.min_uptime_seconds:g} s of its start"
    return "" if is_clear else "something of this attempt is still there"
