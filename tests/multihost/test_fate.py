"""Once it runs: what happens on one node happens to all of them."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes, codes
from tests.support.hosts import Lab
from tests.support.launcher import Run, worker
from tests.support.processes import is_alive, wait_until


def wait_ready(runs: list[Run], each: int = 2) -> list[int]:
    return [pid for run in runs for pid in run.wait_ready(each)]


def test_a_failing_rank_ends_all_nodes_and_is_named_on_each(nodes: Nodes, tmp_path: Path) -> None:
    runs = [
        nodes.start(
            i,
            "--nproc-per-node",
            "2",
            "--summary-json",
            str(tmp_path / f"{i}.json"),
            worker("fail"),
            "5",
            "raise",
        )
        for i in range(3)
    ]
    assert codes(runs) == [1, 1, 1]
    for run in runs:
        assert "first failure: rank 5, exit code 1" in run.err
        assert "where:  node 2, host n2, pid " in run.err
        assert run.err.endswith("ValueError: boom in rank 5\n")
    summaries = [json.loads((tmp_path / f"{i}.json").read_text()) for i in range(3)]
    assert len({summary["run_id"] for summary in summaries}) == 1
    for summary in summaries:
        assert (summary["outcome"], summary["exit_code"]) == ("worker-failed", 1)
        assert summary["first_failure"]["host"] == "n2"
        assert summary["first_failure"]["tail"][-1] == "ValueError: boom in rank 5"
    everybody = summaries[0]["attempts"][0]["workers"]
    assert [(one["rank"], one["host"]) for one in everybody] == [(r, f"n{r // 2}") for r in range(6)]
    assert "others: ranks 0-4 stopped by the launcher" in runs[0].err


@pytest.mark.slow
def test_workers_that_lose_their_peers_are_not_taken_for_the_cause(nodes: Nodes) -> None:
    """gloo tells every rank that its peer is gone, and they fail as well."""
    runs = nodes.start_all("--nproc-per-node", "1", worker("gloo_fail"))
    assert codes(runs) == [7, 7, 7]
    for run in runs:
        assert "first failure: rank 2, exit code 7" in run.err


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_one_node_stops_all(
    nodes: Nodes, tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    runs = nodes.start_all("--nproc-per-node", "2", worker("checkpoint"), "0", str(tmp_path / "saved_"))
    wait_ready(runs)
    runs[1].send(signum)
    assert codes(runs) == [code] * 3
    assert len(list(tmp_path.glob("saved_*"))) == 6
    for run in runs:
        assert f"node 1 (n1) received {signum.name}" in run.err
        assert run.out.count(f"saved on {signum.name}") == 2


def test_a_second_ctrl_c_kills_everywhere(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("stubborn"), count=2)
    wait_ready(runs, 1)
    runs[1].send(signal.SIGINT)
    runs[0].wait_for("node 1 (n1) received SIGINT")
    runs[1].send(signal.SIGINT)
    assert codes(runs) == [130, 130]
    assert all("killed by the launcher" in run.err for run in runs)


def test_a_killed_launcher_takes_its_workers_along_and_then_the_run(nodes: Nodes) -> None:
    runs = nodes.start_all("--heartbeat-timeout", "5", worker("sleep"))
    pids = wait_ready(runs, 1)
    began = time.monotonic()
    os.kill(runs[1].pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pids[1]), "its worker is gone")
    assert codes(runs) == [5, -9, 5]
    assert time.monotonic() - began < 10  # 5, and what a slow machine adds
    for run in (runs[0], runs[2]):
        assert "node 1 (n1) was lost" in run.err


def test_a_killed_node_0_ends_the_run(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("sleep"))
    wait_ready(runs, 1)
    os.kill(runs[0].pid, signal.SIGKILL)
    assert codes(runs) == [-9, 5, 5]
    for run in runs[1:]:
        assert "node 0 was lost: nobody listens there any more" in run.err


def test_a_cut_cable_is_a_lost_node_on_both_sides(nodes: Nodes, lab: Lab) -> None:
    runs = nodes.start_all("--heartbeat-timeout", "4", worker("sleep"))
    wait_ready(runs, 1)
    lab.cut(1)
    assert codes(runs) == [5, 5, 5]
    assert "node 1 (n1) was lost" in runs[0].err
    assert "node 0 was lost: no sign of life within --heartbeat-timeout 4 s" in runs[1].err
    assert "node 1 (n1) was lost" in runs[2].err


def test_a_short_cut_is_survived_and_what_happened_meanwhile_is_heard(
    nodes: Nodes, lab: Lab, tmp_path: Path
) -> None:
    runs = nodes.start_all(
        "--heartbeat-timeout", "30", worker("when_told"), str(tmp_path / "end"), "1", "3", "stay"
    )
    wait_ready(runs, 1)
    assert lab.is_connected(0, 29501, peer=1)
    lab.cut(1)
    wait_until(lambda: not lab.is_connected(0, 29501, peer=1), "node 0 has noticed")
    (tmp_path / "end").touch()
    runs[1].wait_for("leaving with 3")
    assert runs[0].process.poll() is None
    lab.heal(1)
    assert codes(runs) == [3, 3, 3]
    assert all("first failure: rank 1, exit code 3" in run.err for run in runs)


def test_a_frozen_launcher_is_lost_and_ends_itself_when_it_wakes(nodes: Nodes) -> None:
    runs = nodes.start_all("--heartbeat-timeout", "4", worker("sleep"))
    pids = wait_ready(runs, 1)
    runs[1].send(signal.SIGSTOP)
    assert [runs[0].wait(), runs[2].wait()] == [5, 5]
    runs[1].send(signal.SIGCONT)
    assert runs[1].wait() == 5
    assert not is_alive(pids[1])


def test_a_node_0_that_was_started_again_is_not_taken_for_the_one_before(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("sleep"), count=2)
    wait_ready(runs, 1)
    os.kill(runs[0].pid, signal.SIGKILL)
    runs[0].wait()
    again = nodes.start(0, "--join-timeout", "12", worker("sleep"), count=2)
    assert runs[1].wait() == 5
    assert "node 0 was lost" in runs[1].err
    assert again.wait() == 4


@pytest.mark.parametrize("strange", ["float('nan')", "10**40"])
def test_an_error_file_that_does_not_travel_costs_nothing_but_itself(
    nodes: Nodes, script: Callable[..., str], strange: str
) -> None:
    text = (
        "import json, os, sys\n"
        "json.dump({'message': {'message': STRANGE}}, open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))"
    )
    path = script(
        text.replace("STRANGE", strange) + "\nsys.exit('last words' if os.environ['RANK'] == '1' else 0)"
    )
    runs = nodes.start_all(path, count=2)
    assert codes(runs) == [1, 1]
    assert all("first failure: rank 1" in run.err and run.err.endswith("last words\n") for run in runs)


def test_a_cut_at_the_very_end_does_not_turn_success_into_failure(
    nodes: Nodes, lab: Lab, tmp_path: Path
) -> None:
    runs = nodes.start_all(
        "--heartbeat-timeout", "30", worker("when_told"), str(tmp_path / "end"), "0", "0", count=2
    )
    runs[1].wait_for("leaving with 0")
    lab.cut(1)
    (tmp_path / "end").touch()
    runs[0].wait_for("leaving with 0")
    wait_until(lambda: not lab.is_connected(0, 29501, peer=1), "node 0 has noticed")
    assert runs[0].process.poll() is None
    lab.heal(1)
    assert codes(runs) == [0, 0]


def test_the_second_ctrl_c_of_a_node_whose_workers_are_gone_kills_those_of_others(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("rank_1_is_stubborn"), count=2)
    wait_ready(runs, 1)
    runs[0].send(signal.SIGINT)
    runs[0].wait_for("waiting for node 1 (n1) to stop")
    runs[0].send(signal.SIGINT)
    assert codes(runs) == [130, 130]
    assert "rank 1 killed by the launcher" in runs[1].err


def test_node_0_stays_until_all_are_done(nodes: Nodes, tmp_path: Path) -> None:
    runs = nodes.start_all(worker("when_told"), str(tmp_path / "end"), "1", "0", count=2)
    runs[0].wait_for("leaving with 0")
    wait_ready(runs, 1)
    assert runs[0].process.poll() is None
    (tmp_path / "end").touch()
    assert codes(runs) == [0, 0]


def test_a_failure_after_this_node_is_done_counts_here_as_well(nodes: Nodes, tmp_path: Path) -> None:
    runs = nodes.start_all(worker("when_told"), str(tmp_path / "end"), "1", "6", count=2)
    runs[0].wait_for("leaving with 0")
    (tmp_path / "end").touch()
    assert codes(runs) == [6, 6]
    assert "rank 0 had finished before" in runs[0].err


def test_only_the_whole_run_can_stall(nodes: Nodes) -> None:
    """Rank 0 works, and the others wait for it: no stall, until it waits as well."""
    runs = nodes.start_all("--stall-timeout", "2", worker("busy_then_asleep"), "5", count=2)
    assert codes(runs) == [6, 6]
    for run in runs:
        assert "stalled: no output and next to no CPU use" in run.err
        assert "rank 0: sleep_at_last" in run.err
        assert "rank 1: sleep_at_once" in run.err
    assert "worked for 5 s" in runs[0].out


def test_the_first_timeout_ends_all(nodes: Nodes) -> None:
    runs = [
        nodes.start(0, worker("sleep"), count=2),
        nodes.start(1, "--timeout", "2", worker("sleep"), count=2),
    ]
    assert codes(runs) == [124, 124]
    assert all("--timeout was reached on node 1 (n1)" in run.err for run in runs)


def test_ctrl_z_is_not_for_one_of_many(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("sleep"), count=2)
    wait_ready(runs, 1)
    runs[0].send(signal.SIGTSTP)
    runs[0].wait_for("Ctrl-Z is ignored")
    runs[0].send(signal.SIGTERM)
    assert codes(runs) == [143, 143]


def test_two_nodes_on_one_machine_leave_each_other_alone(nodes: Nodes, lab: Lab) -> None:
    runs = [nodes.start(number, worker("flaky"), "1", count=2, host=0) for number in (0, 1)]
    assert codes(runs) == [5, 5]
    runs = [nodes.start(n, "--max-restarts", "1", worker("flaky"), "1", count=2, host=0) for n in (0, 1)]
    assert codes(runs) == [0, 0], runs[0].err


def test_the_first_failure_is_who_had_the_reason_on_any_node(nodes: Nodes) -> None:
    runs = nodes.start_all(worker("misses_peer"), "print", count=2)
    assert codes(runs) == [1, 1]
    for run in runs:
        block = run.err[run.err.index("ddplaunch: first failure") :]
        assert block.startswith("ddplaunch: first failure: rank 1, an exception, stopped by the launcher")
        assert "node 1, host n1" in block
        assert block.endswith("ValueError: the real reason\n")
