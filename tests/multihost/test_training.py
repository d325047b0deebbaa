"""Real gloo across real network stacks; ranks follow the node ranks."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.multihost.conftest import Nodes, codes
from tests.support.hosts import Lab
from tests.support.launcher import worker


@pytest.mark.slow
def test_three_nodes_train_whatever_the_order_of_arrival(nodes: Nodes) -> None:
    runs = {}
    for number in (2, 0, 1):
        runs[number] = nodes.start(number, "--nproc-per-node", "2", worker("gloo"))
    assert codes(list(runs.values())) == [0, 0, 0]
    for number, run in runs.items():
        ranks = sorted(re.findall(r"\[(\d)\] sum 15", run.out))
        assert ranks == [str(2 * number), str(2 * number + 1)], run.err


def test_uneven_nodes_add_up(nodes: Nodes) -> None:
    runs = [nodes.start(number, "--nproc-per-node", str(number + 1), worker("dump")) for number in range(3)]
    assert codes(runs) == [0, 0, 0]
    ranks = [sorted(set(re.findall(r"^\[(\d)\]", run.out, re.MULTILINE))) for run in runs]
    assert ranks == [["0"], ["1", "2"], ["3", "4", "5"]]


def test_roles_are_counted_for_themselves(nodes: Nodes, script: Callable[[str], str]) -> None:
    names = ("RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")
    path = script(f"import os\nprint('role', *(os.environ[name] for name in {names}))")
    roles = ("trainer", "reader", "trainer")
    options = ("--nproc-per-node", "2", "--role")
    runs = [nodes.start(number, *options, role, path) for number, role in enumerate(roles)]
    assert codes(runs) == [0, 0, 0], [run.err for run in runs]
    found = sorted(re.findall(r"role (\d) (\w+) (\d) (\d)", "".join(run.out for run in runs)))
    assert found == [
        ("0", "trainer", "0", "4"), ("1", "trainer", "1", "4"), ("2", "reader", "0", "2"),
        ("3", "reader", "1", "2"), ("4", "trainer", "2", "4"), ("5", "trainer", "3", "4"),
    ]  # fmt: skip


def test_the_run_has_one_id_and_one_log_directory(nodes: Nodes, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    runs = nodes.start_all("--log-dir", str(logs), worker("hello"), count=2)
    assert codes(runs) == [0, 0]
    assert [run.err for run in runs] == ["", ""]
    names = sorted(path.name for path in (logs / "latest" / "attempt_0").iterdir())
    assert names == ["rank_0.log", "rank_1.log"]


def test_streams_of_nodes_that_share_a_directory_are_kept_apart(nodes: Nodes, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    options = ("--tee", "3", "--log-dir", str(logs), "--rdzv-id", "job")
    runs = nodes.start_all(*options, worker("fail"), "1", "raise", count=2)
    assert codes(runs) == [1, 1]
    (directory,) = logs.glob("job_*_node_1/attempt_0/0")
    assert all(f"  logs:   {directory}\n" in run.err for run in runs)
    assert "boom in rank 1" in (directory / "stderr.log").read_text()
    (other,) = logs.glob("job_*_node_0/attempt_0/0")
    assert (other / "stderr.log").read_text() == ""
    assert "rank 0 goes on" in (other / "stdout.log").read_text()


def test_a_slow_and_lossy_line_is_survived(nodes: Nodes, lab: Lab) -> None:
    with lab.bad_line(1, delay_ms=50, loss_percent=10):
        runs = nodes.start_all(worker("fail"), "1", "exit7", count=2)
        assert codes(runs) == [7, 7]
    assert all("first failure: rank 1, exit code 7" in run.err for run in runs)
