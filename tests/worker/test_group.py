"""process_group() and its world, with real ranks: under ddplaunch, under torchrun, by hand and alone."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]
ByHand = Callable[..., list[Run]]

GROUP = worker("group")


@pytest.fixture
def by_hand(environment: dict[str, str], tmp_path: Path) -> Iterator[ByHand]:
    """Ranks that nobody watches."""
    runs: list[Run] = []

    def start(count: int, port: int, *arguments: str) -> list[Run]:
        for rank in range(count):
            place = {"RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            directory = tmp_path / f"rank_{rank}"
            directory.mkdir()
            env = {**environment, **{name: str(value) for name, value in place.items()}}
            runs.append(Run([sys.executable, "-u", GROUP, *arguments], env, directory))
        return runs

    yield start
    for run in runs:
        run.end()


@pytest.fixture
def port() -> int:
    """Free a moment ago."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_world_under_ddplaunch(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", GROUP, "place")
    assert run.wait() == 0, run.err
    for rank in (0, 1):
        expected = (
            f"rank={rank} local={rank} size=2 node=0 device=cpu ids=None main={rank == 0} attempt=0 same=True"
        )
        assert f"[{rank}] {expected}" in run.out.splitlines()


def test_the_world_under_torchrun(environment: dict[str, str]) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, GROUP, "place"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"rank=(\d) local=\d size=2 .*?same=True", done.stdout)) == ["0", "1"]


def test_a_world_of_one(environment: dict[str, str]) -> None:
    command = [sys.executable, GROUP, "place"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(
        "rank=0 local=0 size=1 node=0 device=cpu ids=None main=True attempt=0 same=True"
    )


def test_a_barrier_names_who_is_missing(by_hand: ByHand, port: int) -> None:
    runs = by_hand(4, port, "missing")
    for rank in (0, 3):
        assert runs[rank].wait() == 0, runs[rank].err
        said = f"rank {rank}: ranks 1-2 did not come to the barrier within 2.0 s; missing (1, 2)"
        assert said in runs[rank].out


@pytest.mark.parametrize(
    "what", ["raise in barrier", "raise in save", "raise in zero_first", "raise at the end"]
)
def test_a_rank_that_raises_leaves_nobody_waiting(by_hand: ByHand, port: int, what: str) -> None:
    """Without a launcher, too: the timeout of the group would be a minute."""
    runs = by_hand(3, port, what)
    codes = [run.wait() for run in runs]
    assert all(codes), [run.err for run in runs]
    own = "FileNotFoundError" if what == "raise in save" else "ValueError: boom"
    assert own in runs[0].err
    for run in runs[1:]:
        assert "PeerFailedError" in run.err
    if what != "raise at the end":
        assert all(re.search(r"heard after \d s", run.out) for run in runs[1:]), [run.out for run in runs]


def test_under_a_launcher_the_rank_that_raised_is_the_first_failure(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", GROUP, "raise in barrier")
    assert run.wait() == 1
    assert "first failure: rank 0, exit code 1" in run.err
    assert "ValueError: boom" in run.err
    assert "ranks 1-2 stopped by the launcher" in run.err


def test_one_of_a_node_or_of_the_world_goes_first(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", GROUP, "turns")
    assert run.wait() == 0, run.err
    for scope in ("node", "global"):
        at = {rank: float(when) for rank, when in re.findall(rf"{scope} rank=(\d) at=([\d.]+)", run.out)}
        assert len(at) == 3
        assert min(at["1"], at["2"]) - at["0"] >= 0.3


@pytest.mark.parametrize("to", ["launcher", "one worker"])
def test_a_preemption_reaches_all_ranks_at_the_same_step(launch: Launch, to: str) -> None:
    run = launch("--nproc-per-node", "3", GROUP, "preempted")
    pids = run.wait_ready(3)
    os.kill(run.pid if to == "launcher" else pids[1], signal.SIGUSR1)
    assert run.wait() == 0, run.err
    steps = re.findall(r"rank \d stops at step (\d+)", run.out)
    assert len(steps) == 3
    assert len(set(steps)) == 1


def test_a_signal_that_comes_after_the_ranks_have_agreed_kills_nobody(environment: dict[str, str]) -> None:
    command = [sys.executable, GROUP, "late signal"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "asked True\nstill here\n")


def test_everything_is_as_it_was_afterwards(environment: dict[str, str]) -> None:
    command = [sys.executable, GROUP, "signals"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "restored True True\n"


def test_a_second_group_in_the_same_process_has_barriers_of_its_own(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", GROUP, "twice")
    assert run.wait() == 0, run.err
    waited = re.findall(r"rank=[12] waited ([\d.]+)", run.out)
    assert len(waited) == 4
    assert min(map(float, waited)) > 0.4, run.out


def test_after_an_exception_the_next_group_is_a_new_one(environment: dict[str, str]) -> None:
    command = [sys.executable, GROUP, "again"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "first failed\nsecond 1.0\nin our words\n"


def test_two_flags_for_the_same_signal(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", GROUP, "two flags")
    run.wait_ready(2)
    run.send(signal.SIGUSR1)
    assert run.wait() == 0, run.err
    assert run.out.count("both True True") == 2


def test_devices_modes_and_paths(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, GROUP, "paths", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (
        0,
        "mode 640\nlink stays\npipe stays\nempty refused\nfull: no space\n",
    )


@pytest.mark.parametrize(("code", "count"), [("raise", 1), ("exit 7", 7)])
def test_the_exit_code_is_the_scripts_own(launch: Launch, code: str, count: int) -> None:
    """Right after a collective, gloo's threads used to turn it into SIGABRT."""
    for _ in range(3):
        run = launch("--nproc-per-node", "2", GROUP, code)
        assert run.wait() == count, run.err
