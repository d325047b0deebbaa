"""What workers start: gone after a failure or an interruption, left in peace after a success."""

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.support.launcher import DDPLAUNCH, Run, worker
from tests.support.processes import is_alive, wait_until

Launch = Callable[..., Run]


@pytest.mark.parametrize("naked", [[], ["naked"]], ids=["marked", "without environment"])
def test_a_crash_takes_everything_along(launch: Launch, naked: list[str]) -> None:
    run = launch("--nproc-per-node", "3", worker("family"), "fail", *naked)
    pids = run.wait_ready(12)
    assert run.wait() == 7
    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_takes_everything_along(launch: Launch, signum: signal.Signals, code: int) -> None:
    run = launch("--nproc-per-node", "2", worker("family"), "sleep", "naked")
    pids = run.wait_ready(8)
    run.send(signum)
    assert run.wait() == code
    assert [pid for pid in pids if is_alive(pid)] == []


def test_helpers_that_outlive_a_success_are_named_and_left_alone(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", worker("family"), "succeed")
    pids = run.wait_ready(8)
    assert run.wait() == 0
    helpers = [pid for pid in pids if is_alive(pid)]
    for pid in helpers:
        os.kill(pid, signal.SIGKILL)
    assert len(helpers) == 6
    (line,) = run.err.splitlines()
    assert line.startswith("ddplaunch: note: still running, and left alone: pid ")
    assert [f"pid {pid} (sleep 600)" in line for pid in helpers] == [True] * 6


def test_orphans_that_come_to_the_launcher_are_not_kept_as_zombies(launch: Launch, tmp_path: object) -> None:
    script = os.path.join(str(tmp_path), "orphans.py")
    with open(script, "w") as file:
        file.write(
            "import os, signal, subprocess\n"
            "for _ in range(5): subprocess.run(['sh', '-c', 'sleep 0.05 & echo $!'], check=True)\n"
            "print(f'ready pid={os.getpid()}')\n"
            "signal.pause()\n"
        )
    run = launch("--nproc-per-node", "2", script)
    run.wait_ready(2)
    orphans = [int(line.split()[1]) for line in run.out.splitlines() if "ready" not in line]
    assert len(orphans) == 10
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in orphans), "they are reaped")
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_children_that_the_launcher_came_with_are_none_of_its_business(
    environment: dict[str, str],
) -> None:
    """`something & exec ddplaunch ...`: the launcher is that something's parent now."""
    launcher = f"{' '.join(DDPLAUNCH)} --nproc-per-node 2 {worker('family')} fail"
    command = f"sleep 600 >/dev/null 2>&1 & echo $!; exec {launcher}"
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 7
    bystander = int(done.stdout.split()[0])
    assert is_alive(bystander)
    os.kill(bystander, signal.SIGKILL)
