"""What stops a launch, and what is only worth a word."""

from ddplaunch.config.resolve import resolve
from ddplaunch.plan.build import plan_launch
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.checks import (
    check_devices,
    check_launch,
    check_master,
    check_memory,
    check_open_files,
)
from ddplaunch.preflight.facts import Facts, LimitFacts, ScriptFacts
from tests.unit.test_plan import MACHINE


def plan_for(options: dict[str, object], environ: dict[str, str] | None = None) -> LaunchPlan:
    return plan_launch(resolve(options, "train.py", (), {}), MACHINE, environ or {}, "run")


def test_more_workers_than_cards() -> None:
    plan = plan_for({"nproc_per_node": "4"}, {"CUDA_VISIBLE_DEVICES": "1,2"})
    (problem,) = check_devices(plan)
    assert problem.what == "4 workers, but only 2 visible cards"
    assert problem.exit_code == 3
    assert "CUDA_VISIBLE_DEVICES=1,2" in problem.cause


def test_a_cpu_run_may_have_any_number_of_workers() -> None:
    assert check_devices(plan_for({"nproc_per_node": "40"}, {"CUDA_VISIBLE_DEVICES": ""})) == []


def test_master_address_of_many_nodes() -> None:
    for address in ("127.0.0.1", "localhost", "::1"):
        (problem,) = check_master(plan_for({"nnodes": "2", "master_addr": address}))
        assert address in problem.what
    assert check_master(plan_for({"nnodes": "2"}))[0].what == "no master address"
    assert check_master(plan_for({"nnodes": "2", "master_addr": "host-a"})) == []
    assert check_master(plan_for({"master_addr": "127.0.0.1"})) == []


def test_all_problems_come_together() -> None:
    config = resolve({"nproc_per_node": "4"}, "gone.py", (), {})
    environ = {"CUDA_VISIBLE_DEVICES": "0,0", "LOCAL_RANK": "1", "DDPLAUNCH_RUN_ID": "x"}
    plan = plan_launch(config, MACHINE, environ, "run")
    facts = Facts(
        script=ScriptFacts("gone.py", missing="no such file or directory"),
        interpreter=None,
        wrapper=ScriptFacts("nsys", missing="no program of that name in PATH"),
        unwritable="",
        limits=LimitFacts(open_files=10, open_files_hard=20),
    )
    verdict = check_launch(config, plan, environ, facts)
    assert [problem.what for problem in verdict.problems] == [
        "ddplaunch was started inside one of its own workers",
        "cannot find the script gone.py",
        "cannot find --wrap nsys",
        "CUDA_VISIBLE_DEVICES=0,0 names 0 twice",
        "4 workers need 64 open files, and only 20 are allowed",
    ]


def test_open_files_are_raised_or_refused() -> None:
    assert check_open_files(LimitFacts(open_files=1024, open_files_hard=4096), 300) == ([], 1840)
    assert check_open_files(LimitFacts(open_files=1024, open_files_hard=None), 300) == ([], 1840)
    assert check_open_files(LimitFacts(open_files=1024, open_files_hard=4096), 8) == ([], None)
    (problem,), raise_to = check_open_files(LimitFacts(open_files=256, open_files_hard=512), 300)
    assert (problem.what, problem.exit_code, raise_to) == (
        "300 workers need 1840 open files, and only 512 are allowed",
        3,
        None,
    )


def test_short_memory_is_told() -> None:
    warnings = check_memory(LimitFacts(shared_memory_bytes=64 << 20, available_memory_bytes=1 << 30), 8)
    assert [warning.split()[0] for warning in warnings] == ["/dev/shm", "1024"]
