"""An idle launcher does not wake up."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]


def wakeups(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))


@pytest.mark.slow
def test_eight_sleeping_workers_cost_nothing(launch: Launch) -> None:
    run = launch("--nproc-per-node", "8", worker("sleep"))
    run.wait_ready(8)
    before = wakeups(run.pid)
    time.sleep(10)  # the time over which it must not wake up
    assert wakeups(run.pid) - before <= 2
    run.send(signal.SIGTERM)
    assert run.wait() == 143
