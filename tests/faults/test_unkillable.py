"""A worker that not even SIGKILL ends: the launcher leaves all the same, and names it."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.support.cgroups import can_make, cgroup, enter
from tests.support.launcher import Run, worker
from tests.support.processes import wait_until

Launch = Callable[..., Run]


@pytest.mark.skipif(not can_make("freezer"), reason="needs root and the freezer of cgroup v1")
def test_the_launcher_leaves_by_grace_and_five_seconds(launch: Launch) -> None:
    """A frozen process does not even die: it is what a worker stuck in a driver looks like."""
    with cgroup("freezer", f"ddplaunch-test-{os.getpid()}") as freezer:
        run = launch("--grace", "1", "--nproc-per-node", "2", worker("sleep"))
        frozen, _ = run.wait_ready(2)
        enter(freezer, frozen)
        (freezer / "freezer.state").write_text("FROZEN")
        wait_until(lambda: (freezer / "freezer.state").read_text() == "FROZEN\n", "it is frozen")
        try:
            began = time.monotonic()
            run.send(signal.SIGTERM)
            assert run.wait() == 143
            assert time.monotonic() - began < 1 + 5
        finally:
            (freezer / "freezer.state").write_text("THAWED")
    assert f"(pid {frozen}) could not be killed (stuck in the kernel?)" in run.err
