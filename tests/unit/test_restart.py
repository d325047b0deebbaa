"""When there is another attempt, and how long to wait for it."""

import signal

import pytest

from ddplaunch.supervise.events import Cause, SignalReceived, Stalled, TimedOut, WorkerExited
from ddplaunch.supervise.restart import RestartPolicy, plan_restart

FAILED = WorkerExited(1, 1, 50.0)
THRICE = RestartPolicy(max_restarts=3, min_uptime_seconds=10, backoff_seconds=2.0)


@pytest.mark.parametrize(
    ("cause", "attempt", "uptime", "pause"),
    [
        (FAILED, 0, 60, 2.0),
        (FAILED, 1, 60, 4.0),
        (FAILED, 2, 60, 8.0),
        (FAILED, 3, 60, None),
        (FAILED, 0, 9.9, None),
        (Stalled(50.0, 5.0), 0, 60, 2.0),
        (TimedOut(50.0), 0, 60, None),
        (SignalReceived(signal.SIGTERM, 50.0), 0, 60, None),
        (None, 0, 60, None),
    ],
)
def test_pauses(cause: Cause | None, attempt: int, uptime: float, pause: float | None) -> None:
    assert plan_restart(THRICE, cause, attempt, uptime) == pause


def test_doubling_ends_at_five_minutes_and_never_below_what_was_asked_for() -> None:
    patient = THRICE._replace(max_restarts=10**6)
    assert plan_restart(patient, FAILED, 900_000, 60) == 300.0
    assert plan_restart(patient._replace(backoff_seconds=1000), FAILED, 5, 60) == 1000.0
