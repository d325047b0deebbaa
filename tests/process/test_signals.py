"""Signals to the launcher."""

import signal
from collections.abc import Callable

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_stop_lets_workers_finish_their_checkpoint(
    launch: Launch, signum: signal.Signals, code: int
) -> None:
    run = launch("--nproc-per-node", "2", worker("on_signal"), "0.5")
    run.wait_ready(2)
    run.send(signum)
    assert run.wait() == code
    assert sorted(line for line in run.out.splitlines() if "saved" in line) == [
        f"[0] saved rank=0 signal={signum}",
        f"[1] saved rank=1 signal={signum}",
    ]
    assert f"the launcher received {signum.name}" in run.err


def test_a_second_ctrl_c_kills_at_once(launch: Launch) -> None:
    run = launch("--grace", "600", "--nproc-per-node", "2", worker("stubborn"))
    run.wait_ready(2)
    run.send(signal.SIGINT)
    run.wait_for("received SIGINT: stopping ranks 0-1, up to 600 s; Ctrl-C again kills at once")
    run.send(signal.SIGINT)
    assert run.wait() == 130


def test_other_signals_pass_through_and_stop_nothing(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", worker("on_signal"), "0")
    run.wait_ready(2)
    run.send(signal.SIGUSR1)
    run.wait_for("noted rank=0 signal=10")
    run.wait_for("noted rank=1 signal=10")
    run.send(signal.SIGUSR2)
    run.wait_for("noted rank=0 signal=12")
    run.wait_for("noted rank=1 signal=12")
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_nohup_is_respected(launch: Launch) -> None:
    run = launch(
        "--nproc-per-node",
        "2",
        worker("on_signal"),
        "0",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    run.wait_ready(2)
    run.send(signal.SIGHUP)
    run.send(signal.SIGUSR1)  # comes after it, and is answered
    run.wait_for("noted rank=0 signal=10")
    run.send(signal.SIGTERM)
    assert run.wait() == 143
    assert "SIGHUP" not in run.err


def test_a_signal_that_was_passed_on_is_not_blamed_on_others(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", worker("sleep"))
    run.wait_ready(2)
    run.send(signal.SIGUSR1)  # this worker has no handler
    assert run.wait() == 128 + signal.SIGUSR1
    assert "killed by SIGUSR1 (user defined signal 1), passed on by the launcher" in run.err
