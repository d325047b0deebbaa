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
