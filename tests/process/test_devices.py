"""Cards and cores, with a stub of the driver's library under the real nvidia-ml-py."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker

STUB = Path(__file__).parents[1] / "support" / "nvml_stub.c"
Launch = Callable[..., Run]


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc, to compile a stub of the driver's library")
    directory = tmp_path_factory.mktemp("nvml")
    library = directory / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, STUB], check=True)
    return str(directory)


@pytest.fixture
def with_cards(launch: Launch, stub: str) -> Launch:
    """Launch on a machine with four cards; `env` may say more about them."""

    def start(*arguments: str, env: dict[str, str] | None = None) -> Run:
        return launch(*arguments, env={"LD_LIBRARY_PATH": stub, "STUB_CARDS": "4", **(env or {})})

    return start


def plan_of(run: Run) -> dict[str, Any]:
    assert run.wait() == 0, run.err
    document = json.loads(run.out)
    assert isinstance(document, dict)
    return document


def devices_of(run: Run) -> list[list[str]]:
    return [one["devices"] for one in plan_of(run)["workers"]]


DRY = ("--dry-run", "--format", "json")


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("0,3", [["0"], ["3"]]), ("2,0", [["2"], ["0"]]), ("GPU-22,GPU-0", [["GPU-22"], ["GPU-0"]])],
)
def test_visible_cards_in_their_order(with_cards: Launch, visible: str, devices: list[list[str]]) -> None:
    assert devices_of(with_cards(*DRY, "train.py", env={"CUDA_VISIBLE_DEVICES": visible})) == devices


def test_all_cards_without_a_word(with_cards: Launch) -> None:
    plan = plan_of(with_cards(*DRY, "train.py"))
    assert plan["sources"]["nproc_per_node"] == "4 visible GPUs"
    assert [one["devices"] for one in plan["workers"]] == [["0"], ["1"], ["2"], ["3"]]
    assert "CUDA_VISIBLE_DEVICES" not in plan["workers"][0]["env"]


@pytest.mark.parametrize(
    ("visible", "said"),
    [
        ("1,2", "4 workers, but only 2 visible cards"),
        ("0,9", "CUDA_VISIBLE_DEVICES=0,9: card 9 does not exist"),
        ("GPU-9", "CUDA_VISIBLE_DEVICES=GPU-9: card GPU-9 does not exist"),
        ("0,0", "CUDA_VISIBLE_DEVICES=0,0 names 0 twice"),
    ],
)
def test_what_cannot_work_is_refused(with_cards: Launch, visible: str, said: str) -> None:
    run = with_cards("--nproc-per-node", "4", worker("hello"), env={"CUDA_VISIBLE_DEVICES": visible})
    assert (run.wait(), run.out) == (3, "")
    assert said in run.err


def test_empty_differs_from_unset(with_cards: Launch) -> None:
    plan = plan_of(with_cards(*DRY, "train.py", env={"CUDA_VISIBLE_DEVICES": ""}))
    assert (len(plan["workers"]), plan["sources"]["nproc_per_node"]) == (1, "no visible GPU")


def test_picked_cards(with_cards: Launch) -> None:
    plan = plan_of(with_cards(*DRY, "--gpus", "3,1", "train.py"))
    assert [one["devices"] for one in plan["workers"]] == [["3"], ["1"]]
    assert {one["env"]["CUDA_VISIBLE_DEVICES"] for one in plan["workers"]} == {"3,1"}
    refused = with_cards("--gpus", "0,4", worker("hello"))
    assert refused.wait() == 3
    assert "--gpus 0,4: there is no card 4" in refused.err


def test_several_cards_per_worker(with_cards: Launch) -> None:
    plan = plan_of(with_cards(*DRY, "--gpus-per-proc", "2", "train.py"))
    assert [one["devices"] for one in plan["workers"]] == [["0", "1"], ["2", "3"]]
    assert [one["env"]["DDPLAUNCH_DEVICE_IDS"] for one in plan["workers"]] == ["0,1", "2,3"]
    refused = with_cards("--gpus-per-proc", "2", "--nproc-per-node", "3", worker("hello"))
    assert refused.wait() == 3
    assert "3 workers with 2 cards each, but only 4 visible cards" in refused.err


def test_isolated_cards(with_cards: Launch) -> None:
    run = with_cards("--isolate-gpus", "--gpus-per-proc", "2", worker("dump"))
    assert run.wait() == 0
    seen = sorted(
        json.loads(line.partition("dump ")[2])["env"]["CUDA_VISIBLE_DEVICES"] for line in run.out.splitlines()
    )
    assert seen == ["0,1", "2,3"]
    plan = plan_of(with_cards(*DRY, "--isolate-gpus", "--gpus-per-proc", "2", "train.py"))
    assert [one["env"]["DDPLAUNCH_DEVICE_IDS"] for one in plan["workers"]] == ["0,1", "0,1"]


def test_another_vendors_variable_is_narrowed_alone(launch: Launch) -> None:
    run = launch(*DRY, "--isolate-gpus", "x.py", env={"ASCEND_RT_VISIBLE_DEVICES": "4,5"})
    plan = plan_of(run)
    assert [one["env"]["ASCEND_RT_VISIBLE_DEVICES"] for one in plan["workers"]] == ["4", "5"]
    assert not any("CUDA_VISIBLE_DEVICES" in one["env"] for one in plan["workers"])


def test_a_card_that_somebody_fills_is_named(with_cards: Launch) -> None:
    env = {"STUB_USED": "0,80000,0", "STUB_USERS": "1:4711:80000", "STUB_NAMES": "Stub,Stub,Other"}
    run = with_cards(worker("hello"), env=env)
    assert run.wait() == 0
    assert "card 1 is full (80000 of 81920 MiB): pid 4711 holds 80000 MiB" in run.err
    assert "the cards differ (Other, Stub): the slowest sets the pace" in run.err


def test_a_driver_that_does_not_start_shows_no_cards(with_cards: Launch) -> None:
    plan = plan_of(with_cards(*DRY, "train.py", env={"STUB_BROKEN": "1"}))
    assert plan["sources"]["nproc_per_node"] == "no visible GPU"


def test_workers_run_where_they_are_bound(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "where.py"
    script.write_text("import os\nprint(os.environ['RANK'], sorted(os.sched_getaffinity(0)))\n")
    count = len(os.sched_getaffinity(0))
    run = launch("--numa-binding", "exclusive", "--nproc-per-node", str(count), str(script))
    assert run.wait() == 0, run.err
    bound = [line.partition("[")[2].partition("[")[2].rstrip("]") for line in run.out.splitlines()]
    assert sorted(map(int, bound)) == sorted(os.sched_getaffinity(0))


def test_more_workers_than_cores(launch: Launch) -> None:
    count = len(os.sched_getaffinity(0)) + 1
    run = launch("--numa-binding", "exclusive", "--nproc-per-node", str(count), worker("hello"))
    assert run.wait() == 3
    assert "--numa-binding exclusive: not enough cores" in run.err


def test_the_check_report(with_cards: Launch) -> None:
    job = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_GPUS_ON_NODE": "4"}
    run = with_cards("--check", env={"STUB_USERS": "1:4711:400", "STUB_NUMA": "0,0,1,1", **job})
    assert run.wait() == 0, run.err
    for said in ("ddplaunch", "torch", "2.13.0", "999.1", "GPU-222", "pid 4711 (400 MiB)", "NUMA node 0"):
        assert said in run.out
    assert re.search(r"scheduler +Slurm, job 7\n", run.out)
    assert re.search(r"SLURM_JOB_ID +7\n", run.out)
    assert run.out.endswith("ok: a launch would start 4 workers here, of 4 in all\n")


def test_the_check_report_for_programs(with_cards: Launch) -> None:
    run = with_cards("--check", "--format", "json", "--nproc-per-node", "9", "gone.py")
    assert run.wait() == 2
    found = json.loads(run.out)
    assert (found["ok"], found["exit_code"]) == (False, 2)
    assert [problem["what"] for problem in found["problems"]] == [
        "cannot find the script gone.py",
        "9 workers, but only 4 visible cards",
    ]
    assert [card["pci"] for card in found["devices"]] == [f"00000000:0{n}:00.0" for n in range(4)]
    assert list(found) == [
        "ok", "exit_code", "versions", "devices", "cpus", "limits", "network", "cluster",
        "problems", "warnings",
    ]  # fmt: skip


def test_the_check_report_says_whether_the_master_can_be_reached(launch: Launch) -> None:
    options = ["--check", "--nnodes", "2", "--node-rank", "1"]
    for address, said in (
        ("127.0.0.2", "127.0.0.2 is this node"),
        ("no.such.host.invalid", "does not resolve"),
    ):
        run = launch(*options, "--master-addr", address)
        run.wait()
        assert said in run.out
        assert "Traceback" not in run.err
