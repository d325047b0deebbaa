"""What a scheduler grants on a node: cards, cores, and variables of its own."""

from ddplaunch.plan.build import plan_launch
from ddplaunch.plan.devices import VARIABLE, Card, Vendor
from ddplaunch.plan.model import LaunchPlan
from tests.unit.test_cluster import configure
from tests.unit.test_plan import MACHINE, with_cards


def plan_with(environ: dict[str, str], cards: int, *words: str) -> LaunchPlan:
    return plan_launch(configure(environ, *words), with_cards(cards), environ, "run")


ALONE = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "1"}


def test_cards_by_slurm_with_and_without_cgroups() -> None:
    # Without cgroups the numbers are the machine's own; with them they begin at 0 and the others are hidden.
    granted = {**ALONE, "SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "2,3"}
    plan = plan_with(granted, 4, "--isolate-gpus")
    assert [worker.env[VARIABLE] for worker in plan.workers] == ["2", "3"]
    hidden = {**ALONE, "SLURM_GPUS_ON_NODE": "2", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert len(plan_with(hidden, 2).workers) == 2
    # --gpus-per-task=1: the list is shorter than what the node has.
    assert len(plan_with({**granted, "CUDA_VISIBLE_DEVICES": "3"}, 4).workers) == 1
    # Cards that the scheduler counts and we cannot see.
    plan = plan_with({**ALONE, "SLURM_GPUS_ON_NODE": "4"}, 0)
    assert (len(plan.workers), plan.sources["nproc_per_node"]) == (4, "SLURM_GPUS_ON_NODE (Slurm)")
    assert len(plan_with({**ALONE, "SLURM_GPUS_ON_NODE": "4", "CUDA_VISIBLE_DEVICES": ""}, 0).workers) == 1


def test_a_step_without_cards_does_not_take_them_all() -> None:
    (problem,) = plan_with(ALONE, 4).problems
    assert problem.what == "Slurm has given this job no GPU, and this machine shows 4"
    assert problem.exit_code == 3
    assert plan_with(ALONE, 4, "--nproc-per-node", "2").problems == ()
    assert plan_with(ALONE, 4, "--gpus", "0,1").problems == ()
    assert plan_with({**ALONE, "CUDA_VISIBLE_DEVICES": "1"}, 4).problems == ()
    assert plan_with(ALONE, 0).problems == ()


def test_what_a_platform_sets_is_not_stale() -> None:
    environ = {
        "PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "pod-0", "MASTER_PORT": "23456",
        "RANK": "1", "WORLD_SIZE": "2",
    }  # fmt: skip
    assert plan_launch(configure(environ), MACHINE, environ, "run").notices == ()
    (notice,) = plan_launch(configure({"RANK": "1"}), MACHINE, {"RANK": "1"}, "run").notices
    assert "RANK=1" in notice


def test_workers_that_share_too_few_cores_are_told() -> None:
    config = configure({**ALONE}, "--nproc-per-node", "8")
    assert plan_launch(config, MACHINE._replace(cpus=1, all_cpus=1), ALONE, "run").notices == ()
    bound = MACHINE._replace(cpus=1)
    (notice,) = plan_launch(config, bound, ALONE, "run").notices
    assert notice == (
        "8 workers share 1 CPU: Slurm gives this launcher no more (srun --cpus-per-task=8, or more)"
    )


def test_cards_of_other_vendors_are_left_to_their_variables() -> None:
    machine = MACHINE._replace(vendor=Vendor("GPU", "ROCR_VISIBLE_DEVICES", (Card(0), Card(1))))
    environ = {**ALONE, "SLURM_GPUS_ON_NODE": "1", "ROCR_VISIBLE_DEVICES": "1"}
    assert len(plan_launch(configure(environ), machine, environ, "run").workers) == 1
