"""SIGKILL of the launcher, of its guardian, of both: nothing of the run is left."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from tests.support.launcher import Run, worker
from tests.support.processes import children_of, find_marked, is_alive, read_of, wait_until

Launch = Callable[..., Run]


def is_over(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


def guardian_of(run: Run, pids: list[int]) -> int:
    (guardian,) = guardians_of(run) - set(pids)
    return guardian


def guardians_of(run: Run) -> set[int]:
    """Children of the launcher that say so of themselves."""
    return {pid for pid in children_of(run.pid) if read_of(pid, "comm") == "ddplaunch-guard\n"}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_the_whole_family_goes_with_the_launcher(launch: Launch) -> None:
    run = launch("--nproc-per-node", "4", worker("family"), "sleep")
    pids = run.wait_ready(16)
    kill(run.pid)
    wait_until(lambda: is_over(pids), "all 16 processes are gone", seconds=15)


@pytest.mark.parametrize("alone_for", [0.0, 0.02, 0.06, 0.12])
def test_killed_while_it_starts_many_workers(
    launch: Launch, environment: dict[str, str], alone_for: float
) -> None:
    """At whatever moment: between two workers, between fork and exec, while they boot."""
    run = launch("--nproc-per-node", "40", worker("family"), "sleep")
    mark = "DDP_TEST_MARK=" + environment["DDP_TEST_MARK"]
    wait_until(lambda: len(find_marked(mark)) > 4, "the first workers are there")
    time.sleep(alone_for)  # not a wait for anything: a moment to strike
    kill(run.pid)
    run.wait()
    wait_until(lambda: not find_marked(mark), "everything of the run is gone", seconds=15)


def test_a_guardian_that_is_killed_is_replaced(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", worker("family"), "sleep")
    pids = run.wait_ready(8)
    known = set(pids)
    for _ in range(3):
        guardian = guardian_of(run, list(known))
        known.add(guardian)
        kill(guardian)
        wait_until(lambda: len(guardians_of(run) - known) == 1, "there is a new one")
    assert all(is_alive(pid) for pid in pids)
    kill(run.pid)
    wait_until(lambda: is_over(pids), "all 8 processes are gone", seconds=15)


def test_without_a_guardian_the_kernel_ends_the_workers_and_their_groups(launch: Launch) -> None:
    """Both at once, as `pkill -9 -f ddplaunch` would: the workers and the children in their groups go."""
    run = launch("--nproc-per-node", "2", worker("stubborn"))
    pids = run.wait_ready(2)
    guardian = guardian_of(run, pids)
    os.kill(guardian, signal.SIGSTOP)
    kill(run.pid)
    wait_until(lambda: is_over(pids), "the workers are gone", seconds=15)
    kill(guardian)
    wait_until(lambda: not is_alive(guardian), "the guardian is gone")


def test_a_guardian_that_is_stopped_does_not_hold_the_launcher(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", worker("sleep"))
    guardian = guardian_of(run, run.wait_ready(2))
    os.kill(guardian, signal.SIGSTOP)
    run.send(signal.SIGTERM)
    assert run.wait(10) == 143
    assert not is_alive(guardian)


def test_the_run_directory_goes_too(launch: Launch, tmp_path: object) -> None:
    run = launch("--nproc-per-node", "2", worker("sleep"), env={"TMPDIR": str(tmp_path)})
    run.wait_ready(2)
    (directory,) = [name for name in os.listdir(str(tmp_path)) if name.startswith("ddplaunch-")]
    kill(run.pid)
    wait_until(lambda: directory not in os.listdir(str(tmp_path)), "the run's directory is removed")
