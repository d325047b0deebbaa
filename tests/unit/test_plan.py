"""Ranks, environment, command lines and devices of workers."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.config.resolve import resolve
from ddplaunch.plan.build import plan_launch
from ddplaunch.plan.devices import VARIABLE, Card, Vendor
from ddplaunch.plan.environment import for_attempt
from ddplaunch.plan.model import LaunchPlan, Machine, WorkerSpec
from ddplaunch.plan.render import plan_all_nodes, render_json, render_shell, render_tables

MACHINE = Machine(
    host="n0",
    python="/env/bin/python",
    other_environment=None,
    cpus=8,
    all_cpus=8,
    vendor=Vendor("GPU", VARIABLE, ()),
    cpu_map=(),
    temporary_directory="/tmp",
)


def with_cards(count: int) -> Machine:
    return MACHINE._replace(vendor=Vendor("GPU", VARIABLE, tuple(Card(index) for index in range(count))))


def plan_for(
    options: Mapping[str, object],
    environ: Mapping[str, str] | None = None,
    machine: Machine = MACHINE,
    args: tuple[str, ...] = (),
) -> tuple[LaunchPlan, tuple[WorkerSpec, ...]]:
    config = resolve(options, "train.py", args, environ or {})
    plan = plan_launch(config, machine, environ or {}, "run")
    return plan, plan_all_nodes(config, machine, environ or {}, plan)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_ranks_are_a_permutation_in_node_order(nprocs: list[int]) -> None:
    options = {"nnodes": str(len(nprocs)), "nproc_per_node": ",".join(map(str, nprocs))}
    _, workers = plan_for(options)
    assert [worker.rank for worker in workers] == list(range(sum(nprocs)))
    for worker in workers:
        assert worker.rank == sum(nprocs[: worker.node_rank]) + worker.local_rank
        assert worker.env["RANK"] == str(worker.rank)
        assert worker.env["WORLD_SIZE"] == str(sum(nprocs))
        assert worker.env["LOCAL_WORLD_SIZE"] == str(nprocs[worker.node_rank])


def test_everything_a_worker_is_promised() -> None:
    plan, _ = plan_for({"nnodes": "2", "node_rank": "1", "nproc_per_node": "2", "master_addr": "host-a"})
    assert plan.workers[1].env == {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_NAME": "default",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "host-a",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_RUN_ID": "run",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "/tmp/ddplaunch-run/attempt_0_rank_3_error.json",
        "DDPLAUNCH_RUN_ID": "run",
        "DDPLAUNCH_LAUNCH_ID": "run",
        "DDPLAUNCH_ATTEMPT": "0",
        "OMP_NUM_THREADS": "4",
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
    }


def test_what_the_user_set_stays() -> None:
    plan, _ = plan_for(
        {"nproc_per_node": "2", "env": ("PYTHONFAULTHANDLER=0",)},
        {"OMP_NUM_THREADS": "7", "PYTHONUNBUFFERED": ""},
    )
    env = plan.workers[0].env
    assert "OMP_NUM_THREADS" not in env
    assert "PYTHONUNBUFFERED" not in env
    assert env["PYTHONFAULTHANDLER"] == "0"
    plan, _ = plan_for({"nproc_per_node": "2", "omp_threads": "3"}, {"OMP_NUM_THREADS": "7"})
    assert plan.workers[0].env["OMP_NUM_THREADS"] == "3"


def test_cards_that_cannot_be_seen_are_isolated_by_their_numbers() -> None:
    asked = {"nproc_per_node": "2", "gpus_per_proc": "2", "isolate_gpus": True}
    plan, _ = plan_for(asked)
    assert [worker.env[VARIABLE] for worker in plan.workers] == ["0,1", "2,3"]
    hidden, _ = plan_for(asked, {VARIABLE: ""})
    assert all(VARIABLE not in worker.env for worker in hidden.workers)


@pytest.mark.parametrize(("workers", "threads"), [("1", "8"), ("3", "2"), ("8", "1"), ("100", "1")])
def test_threads_share_the_cpus(workers: str, threads: str) -> None:
    plan, _ = plan_for({"nproc_per_node": workers})
    assert plan.workers[0].env["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ({}, ["/env/bin/python", "-u", "train.py", "--x", ""]),
        ({"module": True}, ["/env/bin/python", "-u", "-m", "train.py", "--x", ""]),
        ({"no_python": True}, ["train.py", "--x", ""]),
        ({"python": "/other/python"}, ["/other/python", "-u", "train.py", "--x", ""]),
        ({"pass_local_rank": "dash"}, ["/env/bin/python", "-u", "train.py", "--local-rank=0", "--x", ""]),
        (
            {"pass_local_rank": "underscore"},
            ["/env/bin/python", "-u", "train.py", "--local_rank=0", "--x", ""],
        ),
        (
            {"wrap": "nsys -o p_{rank} {other}"},
            ["nsys", "-o", "p_0", "{other}", "/env/bin/python", "-u", "train.py", "--x", ""],
        ),
        ({"wrap": "nsys", "wrap_ranks": "1"}, ["/env/bin/python", "-u", "train.py", "--x", ""]),
    ],
)
def test_command_lines(options: dict[str, object], argv: list[str]) -> None:
    plan, _ = plan_for({**options, "nproc_per_node": "2"}, args=("--x", ""))
    assert list(plan.workers[0].argv) == argv


@pytest.mark.parametrize(
    ("nproc", "environ", "cards", "expected", "source"),
    [
        ("auto", {}, 0, 1, "no visible GPU"),
        ("auto", {}, 4, 4, "4 visible GPUs"),
        ("auto", {"CUDA_VISIBLE_DEVICES": "0,3"}, 4, 2, "2 visible GPUs"),
        ("auto", {"CUDA_VISIBLE_DEVICES": ""}, 4, 1, "no visible GPU"),
        ("gpu", {"CUDA_VISIBLE_DEVICES": "1"}, 4, 1, "1 visible GPU"),
        ("cpu", {}, 4, 8, "8 usable CPUs"),
    ],
)
def test_counting_workers(
    nproc: str, environ: dict[str, str], cards: int, expected: int, source: str
) -> None:
    plan, _ = plan_for({"nproc_per_node": nproc}, environ, with_cards(cards))
    assert (len(plan.workers), plan.sources["nproc_per_node"]) == (expected, source)


def test_gpu_without_a_gpu_is_a_problem() -> None:
    plan, _ = plan_for({"nproc_per_node": "gpu"})
    (problem,) = plan.problems
    assert problem.what == "--nproc-per-node gpu: no GPU is visible"


def test_ranks_that_do_not_exist_are_told() -> None:
    plan, _ = plan_for({"nproc_per_node": "2", "console": "0,7", "wrap": "nice", "wrap_ranks": "9"})
    assert plan.notices == (
        "--console names 7; ranks are 0 to 1",
        "--wrap-ranks names 9; ranks are 0 to 1",
    )
    plan, _ = plan_for({"nproc_per_node": "2", "interactive_rank": "2"})
    assert plan.problems[0].what == "--interactive-rank 2: there is no such rank"


def test_a_stale_rank_of_one_worker_is_stale_for_the_others() -> None:
    plan, _ = plan_for({"nproc_per_node": "2"}, {"RANK": "0", "WORLD_SIZE": "2"})
    assert plan.notices == ("ignored RANK=0 from the environment; workers get their own",)


def test_devices_that_the_user_sets_for_the_workers_count() -> None:
    plan, _ = plan_for(
        {"nproc_per_node": "4", "env": ("CUDA_VISIBLE_DEVICES=",)}, {"CUDA_VISIBLE_DEVICES": "0"}
    )
    assert plan.visible.devices == ()


def test_a_script_called_like_an_option_is_a_script() -> None:
    config = resolve({}, "-x.py", (), {})
    assert plan_launch(config, MACHINE, {}, "run").workers[0].argv[-1] == "./-x.py"


def test_names_that_are_none_to_a_shell() -> None:
    plan, _ = plan_for({"env": ("A-B=1 2",)})
    words = shlex.split(render_shell(plan))
    assert words[0] == "env"
    assert "A-B=1 2" in words


def test_cards_keep_the_order_of_the_list() -> None:
    plan, _ = plan_for({}, {"CUDA_VISIBLE_DEVICES": "3,0"}, with_cards(4))
    assert [worker.devices for worker in plan.workers] == [("3",), ("0",)]


def test_stale_ranks_get_one_notice() -> None:
    plan, _ = plan_for({}, {"RANK": "5", "WORLD_SIZE": "8"})
    assert plan.notices == ("ignored RANK=5, WORLD_SIZE=8 from the environment; workers get their own",)
    assert plan.workers[0].env["RANK"] == "0"


def test_another_active_environment_gets_one_notice() -> None:
    plan, _ = plan_for({}, machine=MACHINE._replace(other_environment="/home/me/venv"))
    assert plan.notices == ("workers run on /env/bin/python, but the active environment is /home/me/venv",)


def test_output_of_one_and_of_many() -> None:
    assert plan_for({"nproc_per_node": "1"})[0].workers[0].output == "inherit"
    assert plan_for({"nproc_per_node": "1", "output": "prefix"})[0].workers[0].output == "prefix"
    many, _ = plan_for({"nproc_per_node": "3", "console": "1"})
    assert [worker.output for worker in many.workers] == ["hidden", "prefix", "hidden"]
    assert plan_for({"nproc_per_node": "2", "output": "raw"})[0].workers[0].output == "inherit"


def test_json_is_the_contract_of_two_machines() -> None:
    """The two machines of the tutorial: eight workers each, 192.168.0.1:12355."""
    options = {
        "nnodes": "2", "node_rank": "1", "nproc_per_node": "8",
        "master_addr": "192.168.0.1", "master_port": "12355",
    }  # fmt: skip
    plan, workers = plan_for(options)
    document: dict[str, Any] = json.loads(render_json(plan, workers))
    assert list(document) == [
        "nnodes", "node_rank", "world_size", "master_addr", "master_port", "control_port",
        "sources", "workers",
    ]  # fmt: skip
    assert (document["world_size"], document["control_port"]) == (16, 12356)
    assert document["sources"]["master_port"] == "--master-port"
    assert [worker["rank"] for worker in document["workers"]] == list(range(16))
    for worker in document["workers"]:
        assert worker["rank"] == 8 * worker["node_rank"] + worker["local_rank"]
        assert list(worker) == ["rank", "local_rank", "node_rank", "devices", "cpus", "argv", "env"]


def test_shell_lines_can_be_pasted() -> None:
    plan, _ = plan_for({"nproc_per_node": "2"}, args=("a b", "$HOME", ""))
    first, second = render_shell(plan).splitlines()
    words = shlex.split(second)
    assert words[-5:] == ["-u", "train.py", "a b", "$HOME", ""]
    assert "RANK=1" in words
    assert "MASTER_PORT=29500" in shlex.split(first)


def test_the_table_marks_this_node_and_explains_settings() -> None:
    config = resolve({"nnodes": "2", "nproc_per_node": "1", "env": ("A=[red]",)}, "train.py", (), {})
    plan = plan_launch(config, MACHINE, {}, "run")
    workers, settings = render_tables(config, plan, plan_all_nodes(config, MACHINE, {}, plan))
    assert workers.title == "2 workers on 2 nodes"
    assert workers.rows == (("0 (this one)", "0", "0"), ("1", "1", "0"))
    assert ("node rank", "0", "default") in settings.rows
    assert ("master addr", "missing: a launch needs it", "default") in settings.rows
    assert ("env", "A=[red]", "--env") in settings.rows


def test_another_attempt_changes_only_its_own_variables() -> None:
    plan, _ = plan_for({})
    worker = plan.workers[0]
    again = for_attempt(worker, 3, 2, 4711, "/run/dir")
    changed = {name for name in worker.env if worker.env[name] != again.env[name]}
    assert changed == {
        "MASTER_PORT",
        "TORCHELASTIC_RESTART_COUNT",
        "TORCHELASTIC_ERROR_FILE",
        "DDPLAUNCH_ATTEMPT",
    }
    assert again.env["TORCHELASTIC_ERROR_FILE"] == "/run/dir/attempt_3_rank_0_error.json"
