"""Being asked to stop: every worker gets its grace, and nobody gets more than it."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import DDPLAUNCH, Run, worker
from tests.support.processes import is_alive, wait_until
from tests.support.terminal import Terminal

Launch = Callable[..., Run]


def test_every_worker_writes_its_checkpoint_after_sigterm(launch: Launch, tmp_path: Path) -> None:
    """1.5 s of work each, and no helper of theirs is signalled before they are done."""
    run = launch("--nproc-per-node", "3", worker("checkpoint"), "1.5", str(tmp_path / "saved"))
    run.wait_ready(3)
    run.send(signal.SIGTERM)
    time.sleep(0.1)
    run.send(signal.SIGTERM)  # Slurm's second one
    assert run.wait() == 143
    assert [(tmp_path / f"saved{rank}").read_text() for rank in range(3)] == ["helper alive"] * 3
    assert run.out.count("saved on SIGTERM") == 3


def test_a_failure_leaves_the_others_their_grace(launch: Launch, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "3", worker("checkpoint"), "1", str(tmp_path / "saved"))
    pids = run.wait_ready(3)
    os.kill(pids[0], signal.SIGKILL)
    assert run.wait() == 137
    assert run.out.count("saved on SIGTERM") == 2
    assert "killed by SIGKILL, not sent by the launcher" in run.err


def test_workers_that_ignore_it_are_killed_when_the_grace_is_over(launch: Launch) -> None:
    run = launch("--grace", "2", "--nproc-per-node", "4", worker("stubborn"), "fail")
    pids = run.wait_ready(4)
    began = time.monotonic()
    assert run.wait() == 9
    assert time.monotonic() - began < 2 + 5
    assert not any(is_alive(pid) for pid in pids)
    assert "first failure: rank 0, exit code 9" in run.err


def test_slow_ones_are_named_while_they_are_waited_for(launch: Launch) -> None:
    run = launch("--grace", "600", "--nproc-per-node", "2", worker("stubborn"))
    run.wait_ready(2)
    run.send(signal.SIGTERM)
    run.wait_for("ddplaunch: waiting for ranks 0-1 to stop; SIGKILL in 59")
    run.send(signal.SIGINT)
    run.wait_for("Ctrl-C again kills at once")
    run.send(signal.SIGINT)
    assert run.wait() == 143


def test_a_stopped_worker_is_woken_to_hear_it(launch: Launch, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "2", worker("checkpoint"), "0", str(tmp_path / "saved"))
    for pid in run.wait_ready(2):
        os.kill(pid, signal.SIGSTOP)
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert run.out.count("saved on SIGTERM") == 2


@pytest.mark.programs
@pytest.mark.parametrize("shell", ["", "trap : TERM; "], ids=["that dies at once", "that waits"])
def test_a_shell_around_the_worker(launch: Launch, tmp_path: Path, shell: str) -> None:
    """With the scope `group` the script behind the shell hears it, and has its grace."""
    script = f"{DDPLAUNCH[0]} -u {worker('checkpoint')} 1 {tmp_path / 'saved'} & wait $!; wait $!"
    arguments = ["--signal-scope", "group", "--nproc-per-node", "2", "--no-python"]
    run = launch(*arguments, "bash", "-c", shell + script)
    run.wait_ready(2)
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert [(tmp_path / f"saved{rank}").read_text() for rank in range(2)] == ["helper dead"] * 2


@pytest.mark.programs
def test_what_stays_behind_a_shell_is_killed_when_the_grace_is_over(launch: Launch) -> None:
    script = f"{DDPLAUNCH[0]} -u {worker('stubborn')} & wait"
    options = ["--signal-scope", "group", "--grace", "1", "--nproc-per-node", "2", "--no-python"]
    run = launch(*options, "bash", "-c", script)
    pids = run.wait_ready(2)
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_ctrl_c_on_a_terminal(environment: dict[str, str], tmp_path: Path, workers: str) -> None:
    """A worker alone shares the terminal and gets Ctrl-C from it: it must not get it twice."""
    script = [worker("checkpoint"), "0.5", str(tmp_path / "saved")]
    terminal = Terminal([*DDPLAUNCH, "--nproc-per-node", workers, *script], environment)
    for rank in range(int(workers)):
        terminal.wait_for(f"rank={rank}")
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert terminal.seen.count("saved on SIGINT") == int(workers)
    assert "signalled again" not in terminal.seen
    assert "the launcher received SIGINT" in terminal.seen


def test_a_signal_to_the_launcher_alone_reaches_a_worker_on_its_terminal(
    environment: dict[str, str], tmp_path: Path
) -> None:
    script = [worker("checkpoint"), "0.5", str(tmp_path / "saved")]
    terminal = Terminal([*DDPLAUNCH, *script], environment)
    terminal.wait_for("rank=0")
    os.kill(terminal.pid, signal.SIGINT)
    assert terminal.wait() == 130
    assert terminal.seen.count("saved on SIGINT") == 1
    assert "signalled again" not in terminal.seen


def test_ctrl_z_stops_the_workers_too(launch: Launch) -> None:
    def state_of(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    run = launch("--nproc-per-node", "2", worker("sleep"))
    pids = [run.pid, *run.wait_ready(2)]
    run.send(signal.SIGTSTP)
    wait_until(lambda: [state_of(pid) for pid in pids] == ["T"] * 3, "all are stopped")
    run.send(signal.SIGCONT)
    wait_until(lambda: [state_of(pid) for pid in pids] == ["S"] * 3, "all go on")
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_a_second_ctrl_c_on_a_terminal(environment: dict[str, str]) -> None:
    command = [*DDPLAUNCH, "--grace", "600", "--nproc-per-node", "2", worker("stubborn")]
    terminal = Terminal(command, environment)
    for rank in range(2):
        terminal.wait_for(f"rank={rank}")
    terminal.type("\x03")
    terminal.wait_for("Ctrl-C again kills at once")
    terminal.type("\x03")
    assert terminal.wait() == 130


def test_a_terminal_that_is_closed(environment: dict[str, str], tmp_path: Path) -> None:
    path = str(tmp_path / "saved")
    terminal = Terminal([*DDPLAUNCH, "--nproc-per-node", "2", worker("on_signal"), "0.2", path], environment)
    for rank in range(2):
        terminal.wait_for(f"rank={rank}")
    assert terminal.hang_up() == 129
