"""--preload on several nodes: each has its own preloader, and the run has one fate."""

import re
import signal
from pathlib import Path

from tests.multihost.conftest import Nodes, codes
from tests.support.launcher import worker


def test_nodes_preload_and_start_again_together(nodes: Nodes) -> None:
    options = ["--preload", "decimal", "--max-restarts", "2", "--nproc-per-node", "2"]
    runs = nodes.start_all(*options, worker("flaky"), "1", count=2)
    assert codes(runs) == [0, 0], [run.err for run in runs]
    for number, run in enumerate(runs):
        seen = re.findall(r"^\[(\d)\] worker (\d) (\d)", run.out, re.MULTILINE)
        ranks = [str(2 * number), str(2 * number + 1)]
        assert sorted(seen) == [(rank, rank, attempt) for rank in ranks for attempt in "01"]


def test_real_workers_meet(nodes: Nodes) -> None:
    runs = nodes.start_all("--preload", "torch", "--nproc-per-node", "2", worker("gloo"), count=2)
    assert codes(runs) == [0, 0], [run.err for run in runs]
    assert [run.out.count("sum 6") for run in runs] == [2, 2]


def test_a_node_that_cannot_preload_is_known_to_all(nodes: Nodes, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.touch()
    runs = [
        nodes.start(0, "--preload", "decimal", str(script), count=2),
        nodes.start(1, "--preload", "module_that_is_not_there", str(script), count=2),
    ]
    assert codes(runs) == [3, 3]
    for run in runs:
        assert "--preload module_that_is_not_there: cannot import module_that_is_not_there" in run.err


def test_an_interrupt_while_one_node_imports_ends_the_run_on_both(nodes: Nodes, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(600)\n")
    script = tmp_path / "script.py"
    script.touch()
    waiting = nodes.start(0, "--preload", "decimal", str(script), count=2)
    waiting.wait_for("waiting for node 1")
    importing = nodes.start(1, "--preload", "endless", str(script), count=2)
    importing.wait_for("importing")
    importing.send(signal.SIGINT)
    assert codes([waiting, importing]) == [130, 130]
    assert "while no worker was running" in waiting.err
