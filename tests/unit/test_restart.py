"""When there is another attempt, and how long to wait for it."""

import signal

import pytest

from ddplaunch.supervise.events import Cause, SignalReceived, Stalled, TimedOut, WorkerExited
from ddplaunch.supervise.restart import RestartPolicy, find_obstacle, is_mishap, plan_restart

FAILED = WorkerExited(1, 1, 50.0)
THRICE = RestartPolicy(max_restarts=3, min_uptime_seconds=10, backoff_seconds=2.0)


@pytest.mark.parametrize(
    ("cause", "attempt", "pause"),
    [
        (FAILED, 0, 2.0),
        (FAILED, 1, 4.0),
        (FAILED, 2, 8.0),
        (FAILED, 3, None),
        (Stalled(50.0, 5.0), 0, 2.0),
        (TimedOut(50.0), 0, None),
        (SignalReceived(signal.SIGTERM, 50.0), 0, None),
        (None, 0, None),
    ],
)
def test_pauses(cause: Cause | None, attempt: int, pause: float | None) -> None:
    assert plan_restart(THRICE, is_mishap(cause), attempt) == pause


def test_what_is_in_the_way_of_a_restart_is_said() -> None:
    assert find_obstacle(THRICE, 10.0, is_clear=True) == ""
    assert find_obstacle(THRICE, 9.9, is_clear=True) == "it failed within --min-uptime 10 s of its start"
    assert find_obstacle(THRICE, 10.0, is_clear=False) == "something of this attempt is still there"


def test_doubling_ends_at_five_minutes_and_never_below_what_was_asked_for() -> None:
    patient = THRICE._replace(max_restarts=10**6)
    assert plan_restart(patient, True, 900_000) == 300.0
    assert plan_restart(patient._replace(backoff_seconds=1000), True, 5) == 1000.0
