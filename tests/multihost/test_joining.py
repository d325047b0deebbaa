"""Before any worker starts: who is missing, who does not fit, who cannot be reached."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes, codes
from tests.support.hosts import Lab, node_options
from tests.support.launcher import DDPLAUNCH, Run, worker
from tests.support.processes import wait_until
from tests.support.terminal import Terminal


def say_the_same(runs: list[Run], *words: str) -> None:
    for run in runs:
        for word in words:
            assert word in run.err, run.err
        assert "ready" not in run.out  # nothing was started
        assert "Traceback" not in run.err


def test_an_absent_node_is_named_and_not_waited_for_longer_than_asked(nodes: Nodes) -> None:
    began = time.monotonic()
    runs = [nodes.start(number, "--join-timeout", "7", worker("hello")) for number in (0, 1)]
    for run in runs:
        run.wait_for("waiting for node 2 (have 0 n0, 1 n1)")
    assert time.monotonic() - began < 10
    assert codes(runs) == [4, 4]
    say_the_same(runs, "did not come together within --join-timeout", "waiting for node 2 (have 0 n0, 1 n1)")


def test_a_node_without_node_0_says_what_it_tried(nodes: Nodes) -> None:
    run = nodes.start(1, "--join-timeout", "6", worker("hello"))
    run.wait_for("waiting for node 0 at n0:29501 (192.168.0.1: connection refused)")
    assert run.wait() == 4


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_rank_that_was_given_twice(nodes: Nodes, lab: Lab, rank: int) -> None:
    first = [nodes.start(number, worker("hello")) for number in (0, 1)]
    wait_until(lambda: lab.listens(0, 29501), "node 0 listens")
    second = nodes.start(rank, worker("hello"), host=2)
    assert codes([*first, second]) == [4, 4, 4]
    say_the_same([*first, second], f"node rank {rank} was given twice", f"n{rank} and n2 both say")


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (["--nnodes", "2"], ["--nnodes", "3"], "--nnodes"),
        (["--max-restarts", "1"], [], "--max-restarts"),
        (["--master-port", "29510", "--control-port", "29501"], [], "--master-port"),
    ],
)
def test_what_must_agree(nodes: Nodes, one: list[str], other: list[str], words: str) -> None:
    runs = [
        nodes.start(0, *one, worker("hello"), count=2),
        nodes.start(1, *other, worker("hello"), count=2),
    ]
    assert codes(runs) == [4, 4]
    say_the_same(runs, f"the nodes do not agree on {words}", "on node 0 (n0)", "on node 1 (n1)")


def test_another_script_is_a_mistake_and_other_arguments_are_a_note(
    nodes: Nodes, script: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    here, same = script("print('hello')"), script("print('hello')", "copy/train.py")
    runs = [nodes.start(0, here, "--lr", "1", count=2), nodes.start(1, same, "--lr", "2", count=2)]
    assert codes(runs) == [0, 0]
    for run in runs:
        assert "note: the nodes differ in the script's arguments" in run.err
    other = script("print('goodbye')", "copy/train.py")
    runs = [nodes.start(0, here, count=2), nodes.start(1, other, count=2)]
    assert codes(runs) == [4, 4]
    say_the_same(runs, "the nodes do not agree on the script", "train.py (")


def test_a_taken_port_on_node_0_is_told_to_all(nodes: Nodes, lab: Lab) -> None:
    holder = nodes.start_command(0, ["python3", "-m", "http.server", "29500"])
    wait_until(lambda: lab.listens(0, 29500), "the port is taken")
    runs = nodes.start_all(worker("hello"), count=2)
    assert codes(runs) == [3, 3]
    say_the_same(runs, "port 29500 on this machine is already in use", f"pid {holder.pid}", "--master-port")
    assert "node 0 (n0): " in runs[1].err


def test_a_node_without_its_script_ends_the_wait_of_all(nodes: Nodes) -> None:
    runs = [nodes.start(0, worker("hello"), count=2), nodes.start(1, "gone.py", count=2)]
    assert codes(runs) == [2, 2]
    say_the_same(runs, "cannot find the script gone.py")
    assert "node 1 (n1): cannot find" in runs[0].err


def test_node_0_somewhere_else_than_its_address(nodes: Nodes) -> None:
    run = nodes.start(0, worker("hello"), host=1)
    assert run.wait() == 3
    say_the_same([run], "node 0 has to run on the master", "n0 (192.168.0.1) is no address of n1")


@pytest.mark.parametrize("master", ["127.0.0.1", "localhost"])
def test_a_loopback_master(nodes: Nodes, master: str) -> None:
    run = nodes.start(1, "--master-addr", master, worker("hello"))
    assert run.wait() == 3
    say_the_same([run], f"master address {master} cannot be reached from other nodes")


def test_a_master_that_is_no_ddplaunch(nodes: Nodes, lab: Lab) -> None:
    nodes.start_command(0, ["python3", "-m", "http.server", "29501"])
    wait_until(lambda: lab.listens(0, 29501), "somebody listens")
    run = nodes.start(1, worker("hello"))
    run.wait_for("waiting for node 0 at n0:29501 (it answers, and then says nothing)")
    assert run.wait() == 4
    say_the_same([run], "n0:29501 answers, but not as node 0 of this run", "no ddplaunch")


def test_a_node_0_that_is_slow_to_answer_is_waited_for(nodes: Nodes, lab: Lab) -> None:
    first = nodes.start(0, worker("hello"), count=2)
    wait_until(lambda: lab.listens(0, 29501), "node 0 listens")
    first.send(signal.SIGSTOP)
    second = nodes.start(1, worker("hello"), count=2)
    second.wait_for("it answers, and then says nothing")
    first.send(signal.SIGCONT)
    assert codes([first, second]) == [0, 0]


def test_a_port_that_another_run_has_reserved_is_not_taken_from_it(nodes: Nodes, lab: Lab) -> None:
    first = nodes.start(0, "--master-port", "25101", worker("sleep"), count=2)
    wait_until(lambda: lab.listens(0, 25102), "the first run forms")
    second = nodes.start(0, "--master-port", "25100", worker("sleep"), count=2)
    assert second.wait() == 3
    say_the_same([second], "control port 25101 on this machine cannot be used", "--control-port")
    first.send(signal.SIGINT)
    assert first.wait() == 130


def test_a_node_0_that_was_started_again_before_the_run_began(nodes: Nodes, lab: Lab) -> None:
    first, second = (nodes.start(number, worker("hello")) for number in (0, 1))
    second.wait_for("waiting for node 2 (have 0 n0, 1 n1)")
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    first = nodes.start(0, worker("hello"))
    third = nodes.start(2, worker("hello"))
    assert codes([first, second, third]) == [0, 0, 0]


def test_another_run_on_the_same_master(nodes: Nodes) -> None:
    first = nodes.start(0, "--rdzv-id", "one", worker("hello"), count=2)
    stranger = nodes.start(1, "--rdzv-id", "two", worker("hello"), count=2)
    assert stranger.wait() == 4
    say_the_same([stranger], "the nodes do not agree on --rdzv-id", "one on node 0 (n0), two on node 1 (n1)")
    friend = nodes.start(1, "--rdzv-id", "one", worker("hello"), count=2, host=2)
    assert codes([first, friend]) == [0, 0]


@pytest.mark.parametrize(("ours", "theirs"), [("secret", "other"), ("secret", ""), ("", "secret")])
def test_a_wrong_token_is_refused_and_named(nodes: Nodes, ours: str, theirs: str) -> None:
    first = nodes.start(0, worker("hello"), count=2, env={"DDPLAUNCH_TOKEN": ours})
    stranger = nodes.start(1, worker("hello"), count=2, env={"DDPLAUNCH_TOKEN": theirs})
    assert stranger.wait() == 4
    say_the_same([stranger], "DDPLAUNCH_TOKEN")
    first.wait_for("turned away 192.168.0.2: it has another DDPLAUNCH_TOKEN, or none")
    friend = nodes.start(1, worker("hello"), count=2, env={"DDPLAUNCH_TOKEN": ours})
    assert codes([first, friend]) == [0, 0]


@pytest.mark.parametrize("token", ["", "open sesame"])
def test_with_a_token_nothing_is_in_the_clear(nodes: Nodes, token: str) -> None:
    env = {"DDPLAUNCH_TOKEN": token}
    capture = (
        "import socket,sys; s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW,socket.htons(3));"
        "s.bind(('eth0',0)); print('ready',flush=True)\n"
        "while True: sys.stdout.buffer.write(s.recv(70000)); sys.stdout.buffer.flush()"
    )
    wire = nodes.start_command(1, ["python3", "-c", capture])
    wire.wait_for("ready")
    runs = [nodes.start(number, worker("hello"), count=2, env=env) for number in (0, 1)]
    assert codes(runs) == [0, 0]
    assert (b"sesame" in wire.out_bytes, b"script_digest" in wire.out_bytes) == (False, not token)


@pytest.mark.parametrize(
    ("numbers", "signum", "code"), [([1], signal.SIGINT, 130), ([0, 1], signal.SIGTERM, 143)]
)
def test_ctrl_c_while_waiting_ends_the_wait_of_all(
    nodes: Nodes, numbers: list[int], signum: signal.Signals, code: int
) -> None:
    runs = [nodes.start(number, worker("hello")) for number in numbers]
    runs[-1].wait_for("waiting for node")
    began = time.monotonic()
    runs[-1].send(signum)
    assert codes(runs) == [code] * len(runs)
    assert time.monotonic() - began < 5
    say_the_same(runs, "before any worker was started")


def test_on_a_terminal_the_wait_is_one_line_that_moves(lab: Lab, environment: dict[str, str]) -> None:
    command = [*DDPLAUNCH, *node_options(1, 2), worker("hello")]
    terminal = Terminal(lab.hosts[1].command(*command), environment)
    terminal.wait_for("waiting for node 0 at n0:29501 (192.168.0.1: connection refused), 3 s")
    assert len(set(re.findall("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", terminal.seen))) > 3
    assert "\n" not in terminal.seen
    terminal.type("\x03")
    assert terminal.wait() == 130
    assert "received SIGINT before any worker was started here" in terminal.seen


def test_a_master_name_that_does_not_resolve_yet_is_retried(nodes: Nodes, lab: Lab, tmp_path: Path) -> None:
    names = tmp_path / "names"
    names.write_text("127.0.0.1 localhost\n")
    with ExitStack() as renamed:
        for host in lab.hosts[:2]:
            renamed.enter_context(host.names_from(names))
        runs = [nodes.start(number, "--master-addr", "later", worker("hello"), count=2) for number in (0, 1)]
        for run in runs:
            run.wait_for("later does not resolve")
        names.write_text("127.0.0.1 localhost\n192.168.0.1 later\n")
        assert codes(runs) == [0, 0]
