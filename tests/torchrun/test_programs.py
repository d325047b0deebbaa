"""Programs that were written for torchrun run unchanged."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run

Launch = Callable[..., Run]

PROGRAMS = Path(__file__).parent / "programs"


def program(name: str) -> str:
    return str(PROGRAMS / f"{name}.py")


def finish(run: Run) -> str:
    assert run.wait(120) == 0, run.err
    return run.out


def test_record(launch: Launch, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    run = launch("--nproc-per-node", "2", "--summary-json", str(summary), program("record"))
    assert run.wait() == 1
    assert "first failure: rank 1, exit code 1" in run.err
    assert "ValueError: boom in rank 1" in run.err
    failure = json.loads(summary.read_text())["first_failure"]
    assert failure["error_file"]["message"]["message"] == "ValueError: boom in rank 1"


def test_who_started_it(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "2", "--max-restarts", "3", program("launched")))
    assert out.count("elastic True True") == 2
    assert sorted(re.findall(r"rank (\d) 2 (\d)", out)) == [("0", "0"), ("1", "1")]


def test_a_device_mesh(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "4", program("mesh")))
    found = dict(re.findall(r"mesh (\d) .*?(\[\d, \d\])$", out, re.MULTILINE))
    assert found == {"0": "[2, 1]", "1": "[4, 1]", "2": "[2, 5]", "3": "[4, 5]"}


@pytest.mark.slow
def test_shards_and_their_checkpoint(launch: Launch, tmp_path: Path) -> None:
    out = finish(launch("--nproc-per-node", "2", program("shards"), str(tmp_path / "checkpoint")))
    assert sorted(re.findall(r"shards (\d) (\w+)", out)) == [("0", "True"), ("1", "True")]


@pytest.mark.slow
def test_training_goes_on_from_its_snapshot(launch: Launch, tmp_path: Path) -> None:
    options = ("--nnodes=1", "--nproc_per_node=2", "--max_restarts=3", "--rdzv_id=7", "--rdzv_backend=c10d")
    arguments = ("--rdzv_endpoint=localhost:29400", program("snapshot"), str(tmp_path / "snapshot.pt"))
    run = launch(*options, *arguments)
    out = finish(run)
    assert sorted(re.findall(r"snapshot (\d) begins at (\d) after (\d)", out)) == [
        ("0", "0", "0"), ("0", "2", "1"), ("1", "0", "0"), ("1", "2", "1"),
    ]  # fmt: skip
    assert sorted(re.findall(r"snapshot (\d) ends at 4", out)) == ["0", "1"]
    assert "RuntimeError: as if a card had failed\nddplaunch: restart 1 of 3" in run.err


@pytest.mark.slow
def test_a_pipeline_and_remote_calls(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "2", program("pipeline")))
    assert sorted(re.findall(r"pipeline (\d) (\d)", out)) == [("0", "0"), ("1", "4")]
    out = finish(launch("--nproc-per-node", "2", program("remote")))
    assert sorted(re.findall(r"remote (\d) (\d)", out)) == [("0", "1"), ("1", "2")]


def test_a_package(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", "-m", "package.train", "--lr", "1", cwd=PROGRAMS)
    text = "A package that is run with -m."
    assert sorted(finish(run).splitlines()) == [
        f"[{rank}] package {rank} __main__ ['--lr', '1'] {text}" for rank in range(2)
    ]


@pytest.mark.slow
def test_accelerate(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "2", program("with_accelerate")))
    found = re.findall(r"accelerate (\d) 2 DistributedType.MULTI_CPU (\[0, 1\])", out)
    assert sorted(found) == [("0", "[0, 1]"), ("1", "[0, 1]")]


@pytest.mark.slow
def test_lightning_fabric(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "2", program("with_fabric")))
    assert sorted(re.findall(r"fabric (\d) 2 1 (\w+)", out)) == [
        ("0", "TorchElasticEnvironment"), ("1", "TorchElasticEnvironment"),
    ]  # fmt: skip
