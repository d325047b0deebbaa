"""Whatever is written to the control port: a run neither stops nor crashes, and still hears its nodes."""

import signal
import sys
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes, codes
from tests.support.hosts import Lab
from tests.support.launcher import DDPLAUNCH, Run, worker
from tests.support.processes import memory_of, wait_until

SUPPORT = Path(__file__).parents[1] / "support"


def meet_stranger(nodes: Nodes, what: str) -> Run:
    stranger = nodes.start_command(2, [sys.executable, str(SUPPORT / "stranger.py"), "n0", "29501", what])
    stranger.wait_for("done")
    return stranger


def is_still_one_run(runs: list[Run]) -> bool:
    assert [run.process.poll() for run in runs] == [None, None], runs[0].err
    runs[1].send(signal.SIGTERM)
    assert codes(runs) == [143, 143]
    assert all("node 1 (n1) received SIGTERM" in run.err for run in runs)
    return all("Traceback" not in run.err for run in runs)


@pytest.mark.parametrize("what", ["noise", "huge", "strange", "leave", "stay"])
def test_strangers_at_the_port_of_a_run(nodes: Nodes, what: str) -> None:
    runs = nodes.start_all(worker("sleep"), count=2)
    for run in runs:
        run.wait_ready(1)
    stranger = meet_stranger(nodes, what)
    assert memory_of(runs[0].pid) < 60 << 20
    assert is_still_one_run(runs)
    if what == "strange":
        assert "the nodes do not run the same ddplaunch" in stranger.out


@pytest.mark.parametrize("what", ["noise", "huge", "strange", "stay"])
def test_strangers_at_the_port_of_a_run_that_forms(nodes: Nodes, lab: Lab, what: str) -> None:
    first = nodes.start(0, worker("sleep"), count=2)
    wait_until(lambda: lab.listens(0, 29501), "node 0 listens")
    meet_stranger(nodes, what)
    second = nodes.start(1, worker("sleep"), count=2)
    for run in (first, second):
        run.wait_ready(1)
    assert is_still_one_run([first, second])


def test_strangers_at_an_encrypted_port(nodes: Nodes) -> None:
    env = {"DDPLAUNCH_TOKEN": "secret"}
    runs = [nodes.start(number, worker("sleep"), count=2, env=env) for number in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    for what in ("noise", "huge", "leave"):
        meet_stranger(nodes, what)
    assert is_still_one_run(runs)


@pytest.mark.parametrize("token", ["", "secret"])
def test_what_a_node_said_is_said_again_by_somebody_else(nodes: Nodes, tmp_path: Path, token: str) -> None:
    again, env = tmp_path / "again", {"DDPLAUNCH_TOKEN": token}
    command = [sys.executable, str(SUPPORT / "replayer.py"), "29601", "29501", str(again)]
    replayer = nodes.start_command(0, command)
    replayer.wait_for("listening")
    first = nodes.start(0, worker("sleep"), count=2, env=env)
    options = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "n0", "--control-port", "29601"]
    second = nodes.start_command(1, [*DDPLAUNCH, *options, worker("sleep")], env)
    for run in (first, second):
        run.wait_ready(1)
    again.touch()
    replayer.wait_for("replayed")
    assert is_still_one_run([first, second])
