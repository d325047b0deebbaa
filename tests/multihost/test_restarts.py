"""Restarts of many nodes: all together, the old ones gone first, and lost nodes may come back."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

from tests.multihost.conftest import Nodes, codes
from tests.support.launcher import Run, worker
from tests.support.processes import is_alive


def attempts(run: Run) -> list[str]:
    return re.findall(r"worker \d (\d)", run.out)


def test_all_nodes_start_again_together(nodes: Nodes) -> None:
    runs = nodes.start_all("--max-restarts", "3", worker("flaky"), "2")
    assert codes(runs) == [0, 0, 0]
    for run in runs:
        assert attempts(run) == ["0", "1", "2"]
        assert run.err.count("first failure: rank 1, exit code 5") == 2
        assert "restart 2 of 3: all workers start again" in run.err


def test_the_last_failure_is_the_result_of_all(nodes: Nodes) -> None:
    runs = nodes.start_all("--max-restarts", "1", worker("flaky"), "9", count=2)
    assert codes(runs) == [5, 5]
    assert [attempts(run) for run in runs] == [["0", "1"], ["0", "1"]]


def test_a_failure_too_soon_after_the_start_is_final_everywhere(nodes: Nodes) -> None:
    arguments = ("--max-restarts", "1", "--min-uptime", "600", worker("flaky"), "9")
    runs = nodes.start_all(*arguments, count=2)
    assert codes(runs) == [5, 5]
    assert all("no restart: it failed within --min-uptime 600 s" in run.err for run in runs)


def test_no_attempt_begins_before_the_last_one_is_cleared_everywhere(nodes: Nodes, tmp_path: Path) -> None:
    """Rank 0 takes its time to stop; nobody may have started again by then."""
    runs = nodes.start_all("--max-restarts", "1", worker("slow_to_stop"), str(tmp_path / "log"), count=2)
    assert codes(runs) == [0, 0]
    log = (tmp_path / "log").read_text().split()
    assert log.index("stopped-0") < min(log.index("begun-1-0"), log.index("begun-1-1"))


def test_a_killed_node_that_is_started_again_is_taken_in(nodes: Nodes) -> None:
    arguments = ("--max-restarts", "2", worker("once_forever"))
    runs = nodes.start_all(*arguments)
    pids = [pid for run in runs for pid in run.wait_ready(1)]
    os.kill(runs[1].pid, signal.SIGKILL)
    runs[1].wait()
    again = nodes.start(1, *arguments)
    assert codes([runs[0], again, runs[2]]) == [0, 0, 0]
    assert "attempt 1 done" in again.out
    assert not any(is_alive(pid) for pid in pids)
    assert all("node 1 (n1) was lost" in run.err for run in (runs[0], runs[2]))


def test_a_lost_node_that_does_not_come_back(nodes: Nodes) -> None:
    arguments = (
        "--max-restarts",
        "2",
        "--heartbeat-timeout",
        "3",
        "--join-timeout",
        "6",
        worker("once_forever"),
    )
    runs = nodes.start_all(*arguments)
    for run in runs:
        run.wait_ready(1)
    os.kill(runs[2].pid, signal.SIGKILL)
    assert codes(runs) == [5, 5, -9]
    for run in runs[:2]:
        assert "waiting for node 2 (have 0 n0, 1 n1)" in run.err
        assert "did not come back for a restart" in run.err


def test_a_second_launcher_for_a_node_that_is_there_is_turned_away(nodes: Nodes) -> None:
    runs = nodes.start_all("--max-restarts", "2", worker("sleep"), count=2)
    for run in runs:
        run.wait_ready(1)
    second = nodes.start(1, "--max-restarts", "2", worker("sleep"), count=2, host=2)
    assert second.wait() == 4
    assert "node rank 1 was given twice" in second.err
    assert all(run.process.poll() is None for run in runs)
    runs[0].send(signal.SIGTERM)
    assert codes(runs) == [143, 143]


def test_restarts_without_a_pause_stay_in_step(nodes: Nodes, script: Callable[..., str]) -> None:
    """Workers that fail at once: an attempt may be over before a node has heard of its beginning."""
    path = script("import os, sys; sys.exit(3 if os.environ['DDPLAUNCH_ATTEMPT'] != '25' else 0)")
    runs = nodes.start_all("--max-restarts", "25", path)
    assert codes(runs) == [0, 0, 0]
    assert all("restart 25 of 25" in run.err for run in runs)


def test_the_launcher_before_does_not_touch_the_node_that_was_started_again(nodes: Nodes) -> None:
    arguments = ("--max-restarts", "2", "--heartbeat-timeout", "3", worker("twice_forever"))
    runs = nodes.start_all(*arguments, count=2)
    for run in runs:
        run.wait_ready(1)
    runs[1].send(signal.SIGSTOP)
    runs[0].wait_for("waiting for node 1")
    again = nodes.start(1, *arguments, count=2)
    pids = again.wait_ready(1)
    runs[1].send(signal.SIGCONT)
    assert runs[1].wait() != 0
    assert is_alive(pids[0])
    again.send(signal.SIGTERM)
    assert codes([runs[0], again]) == [143, 143]


def test_ctrl_c_between_attempts_ends_the_run_everywhere(nodes: Nodes) -> None:
    runs = nodes.start_all("--max-restarts", "2", "--restart-backoff", "60", worker("flaky"), "9", count=2)
    for run in runs:
        run.wait_for("restart 1 of 2 in 1 min 0 s")
    runs[1].send(signal.SIGINT)
    assert codes(runs) == [130, 130]
    assert all("node 1 (n1) received SIGINT" in run.err for run in runs)
