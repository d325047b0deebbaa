"""Nobody is killed but ours."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from ddplaunch.supervise.census import ProcessFacts, find_ours
from ddplaunch.supervise.events import Work
from ddplaunch.supervise.sweep import _kill, probe_processes, probe_started
from tests.support.launcher import Run, worker
from tests.support.processes import is_alive, wait_until

Launch = Callable[..., Run]
LAST_PID = "/proc/sys/kernel/ns_last_pid"


def test_a_process_of_the_same_name_survives(launch: Launch, environment: dict[str, str]) -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-u", worker("family"), "sleep"],
        env={
            **environment,
            "RANK": "0",
            "WORLD_SIZE": "2",
            "DDPLAUNCH_RUN_ID": "another",
            "DDPLAUNCH_ATTEMPT": "0",
        },
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert bystander.stdout is not None
    theirs = [int(bystander.stdout.readline().rpartition(b"=")[2]) for _ in range(3)]
    run = launch("--nproc-per-node", "2", worker("family"), "fail")
    run.wait_ready(8)
    assert run.wait() == 7
    alive = [is_alive(pid) for pid in (bystander.pid, *theirs)]
    for pid in (bystander.pid, *theirs):
        os.kill(pid, signal.SIGKILL)
    bystander.wait()
    bystander.stdout.close()
    assert alive == [True] * 4


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason="needs root: pids are handed out anew")
def test_a_stranger_with_the_pid_of_a_finished_worker_survives(launch: Launch, tmp_path: object) -> None:
    """Rank 0 succeeds; a stranger gets its pid; rank 1 fails, and everything of the run is ended."""
    go = os.path.join(str(tmp_path), "go")
    script = os.path.join(str(tmp_path), "one_by_one.py")
    with open(script, "w") as file:
        file.write(
            "import os, sys, time\n"
            "print(f'ready pid={os.getpid()} rank={os.environ[\"RANK\"]}')\n"
            "if os.environ['RANK'] == '1':\n"
            f"    while not os.path.exists({go!r}): time.sleep(0.01)\n"
            "    sys.exit(9)\n"
        )
    run = launch("--nproc-per-node", "2", script)
    pids = run.wait_ready(2)
    (first,) = [pid for pid in pids if f"ready pid={pid} rank=0" in run.out]
    wait_until(lambda: not os.path.exists(f"/proc/{first}"), "rank 0 is reaped")
    stranger = _start_with_pid(first)
    with open(go, "w"):
        pass
    assert run.wait() == 9
    survived = is_alive(stranger.pid)
    stranger.kill()
    stranger.wait()
    assert survived


def test_a_pid_that_changed_hands_between_look_and_blow_is_spared() -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    started = probe_started(stranger.pid)
    assert started is not None
    seen = ProcessFacts(stranger.pid, 1, started - 1, Work(0.0, 0), "sleep", is_marked=True)
    _kill(seen)
    assert is_alive(stranger.pid)
    _kill(seen._replace(started=started))
    assert stranger.wait(10) == -signal.SIGKILL


def test_a_look_at_this_machine_finds_nobody_of_an_unknown_run() -> None:
    assert find_ours(probe_processes(("DDPLAUNCH_RUN_ID=no-such-run",)), launcher=None, known=()) == []


def _start_with_pid(pid: int) -> "subprocess.Popen[bytes]":
    """The kernel hands out pids in turn: ask until the turn comes to this one."""
    for _ in range(100):
        with open(LAST_PID, "w") as file:
            file.write(str(pid - 1))
        process = subprocess.Popen(["sleep", "600"], start_new_session=True)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    raise AssertionError(f"pid {pid} was never handed out again")
