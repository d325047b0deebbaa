"""What stops a launch, and what is only worth a word."""

from ddplaunch.config.resolve import resolve
from ddplaunch.plan.build import plan_launch
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.checks import check_devices, check_launch, check_limits, check_master
from ddplaunch.preflight.facts import LimitFacts, ScriptFacts
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
    missing = ScriptFacts("gone.py", missing="No such file or directory")
    verdict = check_launch(config, plan, environ, missing, None, LimitFacts())
    assert [problem.what for problem in verdict.problems] == [
        "ddplaunch was started inside one of its own workers",
        "cannot find the script gone.py",
        "CUDA_VISIBLE_DEVICES=0,0 names 0 twice",
        "4 workers, but only 2 visible cards",
    ]


def test_limits_are_raised_and_small_ones_told() -> None:
    assert check_limits(LimitFacts(open_files=1024, open_files_hard=4096), 300) == ([], 1564)
    assert check_limits(LimitFacts(open_files=1024, open_files_hard=4096), 8) == ([], None)
    warnings, raised = check_limits(LimitFacts(open_files=256, open_files_hard=512), 300)
    assert raised == 512
    assert "1564 open files" in warnings[0]
    warnings, _ = check_limits(LimitFacts(shared_memory_bytes=64 << 20, available_memory_bytes=1 << 30), 8)
    assert [warning.split()[0] for warning in warnings] == ["/dev/shm", "1024"]
