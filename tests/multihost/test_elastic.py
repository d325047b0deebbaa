"""Runs that give out node ranks, lose nodes and take new ones in, on real network stacks."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes, codes
from tests.support.launcher import DDPLAUNCH, Run, worker
from tests.support.processes import wait_until

ENDPOINT = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "n0:29400")
QUICK = ("--heartbeat-timeout", "3", "--rdzv-conf", "last_call_timeout=1")


def join(nodes: Nodes, host: int, count: str, *arguments: str) -> Run:
    return nodes.start_command(host, [*DDPLAUNCH, "--nnodes", count, *ENDPOINT, *QUICK, *arguments])


def begun(run: Run) -> list[tuple[str, ...]]:
    """(size, node, attempt, step) of every beginning of this node's workers."""
    return re.findall(r"begin rank=\d+ size=(\d+) node=(\d+) attempt=(\d+) step=(\d+)", run.out)


@pytest.mark.slow
def test_a_run_loses_a_node_goes_on_with_two_and_takes_a_third_in(nodes: Nodes, tmp_path: Path) -> None:
    arguments = (worker("elastic"), str(tmp_path / "step.pt"), "40")
    runs = {host: join(nodes, host, "2:3", *arguments) for host in (2, 1, 0)}
    for run in runs.values():
        wait_until(lambda run=run: len(begun(run)) == 1, "three nodes train")  # type: ignore[misc]
        assert begun(run)[0][0] == "3"
    assert begun(runs[0])[0][1] == "0"  # whoever is at the endpoint
    os.kill(runs[1].pid, signal.SIGKILL)
    runs[1].wait()
    survivors = [runs[0], runs[2]]
    for run in survivors:
        wait_until(lambda run=run: len(begun(run)) == 2, "two nodes go on")  # type: ignore[misc]
        assert begun(run)[1][0] == "2"
    assert sorted(begun(run)[1][1] for run in survivors) == ["0", "1"]  # without a gap
    again = join(nodes, 1, "2:3", *arguments)
    assert codes([*survivors, again]) == [0, 0, 0], again.err
    for run in (*survivors, again):
        size, _, attempt, step = begun(run)[-1]
        assert (size, attempt) == ("3", "2")
        assert int(step) > 0  # the training went on from its checkpoint
        assert "step=40" in run.out
    assert any(re.search(r"node \d \(n1\) was lost", run.err) for run in survivors)
    assert any(re.search(r"n1 joins the run", run.err) for run in survivors)


def test_ranks_are_given_out_without_any_node_rank(nodes: Nodes) -> None:
    runs = [join(nodes, host, "3", "--nproc-per-node", "2", worker("place")) for host in (1, 2, 0)]
    assert codes(runs) == [0, 0, 0], [run.err for run in runs]
    ranks = [sorted(re.findall(r"place RANK=(\d)", run.out)) for run in runs]
    assert ranks == [["2", "3"], ["4", "5"], ["0", "1"]]  # in the order of their hosts, whoever came first


def test_launchers_on_one_machine_share_its_endpoint(nodes: Nodes) -> None:
    """As people try torchrun out: several agents, one machine, localhost."""
    options = ("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:29400", "--rdzv-id", "7")
    runs = [
        nodes.start_command(0, [*DDPLAUNCH, "--nnodes", "2", *options, worker("place")]) for _ in range(2)
    ]
    assert codes(runs) == [0, 0], [run.err for run in runs]
    assert sorted(re.findall(r"RANK=(\d) WORLD_SIZE=2", "".join(run.out for run in runs))) == ["0", "1"]


def test_who_hosts_the_run_can_be_said(nodes: Nodes) -> None:
    """Where the endpoint is an address in front of the machine, nobody can tell by looking at it."""

    def start(conf: str) -> Run:
        options = ("--nnodes", "2", *ENDPOINT, "--rdzv-conf", conf, worker("place"))
        return nodes.start_command(0, [*DDPLAUNCH, *options])

    guest = start("is_host=0")
    guest.wait_for("waiting for node 0 at n0:29400")
    host = start("is_host=1")
    assert codes([guest, host]) == [0, 0]
    assert "RANK=1" in guest.out


def test_one_node_more_than_there_may_be_waits_as_long_as_it_was_told_to(nodes: Nodes) -> None:
    runs = [join(nodes, host, "1:2", worker("sleep")) for host in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    third = join(nodes, 2, "1:2", "--join-timeout", "6", worker("sleep"))
    assert third.wait() == 4
    assert "waiting for a place: the run has all its 2 nodes" in third.err
    assert "cause: node 0 (n0), node 1 (n1)" in third.err
    for run in runs:
        run.send(signal.SIGTERM)
    assert codes(runs) == [143, 143]


def test_a_spare_that_was_not_needed_says_so_in_its_summary(nodes: Nodes, tmp_path: Path) -> None:
    told, summary = tmp_path / "told", tmp_path / "summary.json"
    arguments = (worker("when_told"), str(told), "1", "0")
    runs = [join(nodes, host, "1:2", *arguments) for host in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    spare = join(nodes, 2, "1:2", "--summary-json", str(summary), *arguments)
    spare.wait_for("waiting for a place")
    told.touch()
    assert codes([*runs, spare]) == [0, 0, 0]
    found = json.loads(summary.read_text())
    assert (found["outcome"], found["exit_code"], found["attempts"]) == ("success", 0, [])


def test_a_spare_node_takes_the_place_of_one_that_is_lost(nodes: Nodes) -> None:
    runs = [join(nodes, host, "1:2", worker("twice_forever")) for host in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    spare = join(nodes, 2, "1:2", worker("twice_forever"))
    spare.wait_for("waiting for a place")
    os.kill(runs[1].pid, signal.SIGKILL)
    runs[1].wait()
    spare.wait_ready(1)
    wait_until(lambda: runs[0].out.count("ready pid=") == 2, "node 0 goes on")
    assert "node 1 (n1) was lost" in runs[0].err
    spare.send(signal.SIGINT)
    assert codes([runs[0], spare]) == [130, 130]
    assert "node 1 (n2) received SIGINT" in runs[0].err


def test_without_enough_nodes_the_run_is_not_begun(nodes: Nodes) -> None:
    alone = join(nodes, 0, "2:3", "--join-timeout", "3", worker("hello"))
    assert alone.wait() == 4
    assert "waiting for 1 more node (have n0)" in alone.err


def test_a_failure_counts_as_in_a_fixed_run(nodes: Nodes) -> None:
    runs = [join(nodes, host, "2:3", "--max-restarts", "1", worker("flaky"), "9") for host in (0, 1)]
    assert codes(runs) == [5, 5]
    assert all("restart 1 of 1" in run.err for run in runs)
    counts = [sorted(re.findall(r"worker \d (\d)", run.out)) for run in runs]
    assert counts == [["0", "1"], ["0", "1"]]


def test_a_node_that_is_told_to_end_departs_and_the_others_go_on(nodes: Nodes) -> None:
    """As machines are that a cloud takes back."""
    runs = {host: join(nodes, host, "1:3", worker("twice_forever")) for host in (0, 1, 2)}
    for run in runs.values():
        run.wait_ready(1)
    runs[1].send(signal.SIGTERM)
    assert runs[1].wait() == 143
    for host in (0, 2):
        wait_until(lambda run=runs[host]: run.out.count("ready pid=") == 2, "two nodes go on")  # type: ignore[misc]
        assert "n1) received SIGTERM: all workers start again" in runs[host].err
    runs[2].send(signal.SIGINT)  # somebody wants it to end
    assert codes([runs[0], runs[2]]) == [130, 130]


def test_ctrl_c_on_a_node_that_waits_to_join_ends_nobody_else(nodes: Nodes, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, signal\n"
        "print(f'ready pid={os.getpid()}')\n"
        "if os.environ['NODE_RANK'] == '0': signal.pause()\n"
    )
    runs = [join(nodes, host, "1:3", str(script)) for host in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    late = join(nodes, 2, "1:3", str(script))  # node 1 has finished: nobody is taken in any more
    wait_until(lambda: nodes._lab.is_connected(0, 29400, 2), "the third node is there")
    late.send(signal.SIGINT)
    assert late.wait() == 130
    assert [run.process.poll() for run in runs] == [None, None]
    runs[0].send(signal.SIGTERM)
    assert codes(runs) == [143, 143]


def test_a_launcher_that_was_killed_and_started_again_at_once_is_taken_in(nodes: Nodes) -> None:
    """As a pod or a unit is that somebody restarts: long before its loss would be noticed."""
    options = ("--heartbeat-timeout", "60", "--max-restarts", "2", worker("once_forever"))
    runs = [join(nodes, host, "2", *options) for host in (0, 1)]
    for run in runs:
        run.wait_ready(1)
    os.kill(runs[1].pid, signal.SIGKILL)
    runs[1].wait()
    again = join(nodes, 1, "2", *options)
    assert codes([runs[0], again]) == [0, 0], again.err
    assert "n1) was lost" in runs[0].err


def test_jobs_on_neighbouring_endpoints_do_not_collide(nodes: Nodes) -> None:
    def start(port: int) -> Run:
        options = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}")
        return nodes.start_command(0, [*DDPLAUNCH, *options, worker("gloo")])

    runs = [start(port) for port in (29400, 29401, 29400, 29401)]
    assert codes(runs) == [0, 0, 0, 0], [run.err for run in runs]


def test_the_check_knows_who_is_node_0(nodes: Nodes) -> None:
    runs = [join(nodes, host, "2", "--check", worker("hello")) for host in (1, 0)]
    assert codes(runs) == [0, 0], [run.out + run.err for run in runs]
    assert all(re.search(r"1 +n1 +[\d.]+ ms", run.out) for run in runs)
