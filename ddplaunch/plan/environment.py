"""The variables a worker gets. [pure]"""

from collections.abc import Mapping, Sequence

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.config.variables import RANK_VARIABLES
from ddplaunch.plan.devices import Visible
from ddplaunch.plan.model import LaunchPlan, Machine, WorkerSpec


def plan_common_env(
    config: LaunchConfig, machine: Machine, environ: Mapping[str, str], nproc: int
) -> dict[str, str]:
    """What all workers of a node share: defaults the user did not set, then the user's own."""
    threads = config.omp_threads or max(1, machine.cpus // nproc)
    wishes = {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCHELASTIC_SIGNALS_TO_HANDLE": "SIGTERM,SIGINT,SIGHUP,SIGQUIT",  # torchrun's default
    }
    env = {name: value for name, value in wishes.items() if name not in environ}
    if config.omp_threads:
        env["OMP_NUM_THREADS"] = str(threads)
    return {**env, **dict(config.env)}


def plan_device_env(config: LaunchConfig, visible: Visible, local_rank: int) -> dict[str, str]:
    """What a worker sees of the cards, where that is not simply everything."""
    per, devices = config.gpus_per_proc, visible.devices
    env: dict[str, str] = {}
    first = local_rank * per
    if not devices:
        if config.isolate_gpus and not visible.is_listed:  # those that we cannot see have numbers, too
            env[visible.variable] = ",".join(map(str, range(first, first + per)))
        return env
    if config.isolate_gpus:
        env[visible.variable] = ",".join(devices[first : first + per])
        first = 0
    elif config.gpus is not None:
        env[visible.variable] = ",".join(devices)
    if per > 1:
        env["DDPLAUNCH_DEVICE_IDS"] = ",".join(map(str, range(first, first + per)))
    return env


def plan_rank_env(
    config: LaunchConfig, plan: LaunchPlan, node_rank: int, rank: int, local_rank: int, world_size: int
) -> dict[str, str]:
    """Who this worker is, in torch's words."""
    role_rank, role_size = _find_role_place(plan, node_rank, local_rank) or (rank, world_size)
    env = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(plan.nprocs[node_rank]),
        "NODE_RANK": str(node_rank),
        "GROUP_RANK": str(node_rank),
        "GROUP_WORLD_SIZE": str(plan.nnodes),
        "ROLE_NAME": config.role,
        "ROLE_RANK": str(role_rank),
        "ROLE_WORLD_SIZE": str(role_size),
        "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
        "TORCHELASTIC_RUN_ID": config.rdzv_id or plan.run_id,
        # "True" would make every rank a client of a store in the launcher; rank 0 hosts it here.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "DDPLAUNCH_RUN_ID": plan.run_id,
        "DDPLAUNCH_LAUNCH_ID": plan.launch_id,
    }
    if plan.master_addr is not None:
        env["MASTER_ADDR"] = plan.master_addr
    return env


def _find_role_place(plan: LaunchPlan, node_rank: int, local_rank: int) -> tuple[int, int] | None:
    """Rank among the workers of the same role, and how many those are, where nodes have different ones."""
    if not plan.roles:
        return None
    counts = [
        nproc if role == plan.roles[node_rank] else 0
        for nproc, role in zip(plan.nprocs, plan.roles, strict=True)
    ]
    return sum(counts[:node_rank]) + local_rank, sum(counts)


def attempt_env(
    rank: int, attempt: int, restarts: int, master_port: int, run_directory: str | None
) -> dict[str, str]:
    """What changes from one attempt to the next."""
    env = {
        "MASTER_PORT": str(master_port),
        "TORCHELASTIC_RESTART_COUNT": str(restarts),
        "DDPLAUNCH_ATTEMPT": str(attempt),
    }
    if run_directory is not None:  # else @record has nowhere to write, and the exception is all there is
        env["TORCHELASTIC_ERROR_FILE"] = error_file(run_directory, attempt, rank)
    return env


def error_file(run_directory: str, attempt: int, rank: int) -> str:
    """Where `@record` in the script may leave its error."""
    return f"{run_directory}/attempt_{attempt}_rank_{rank}_error.json"


def for_attempt(
    spec: WorkerSpec, attempt: int, restarts: int, master_port: int, run_directory: str | None
) -> WorkerSpec:
    """The same worker in another attempt."""
    env = {**spec.env, **attempt_env(spec.rank, attempt, restarts, master_port, run_directory)}
    if run_directory is None:
        env.pop("TORCHELASTIC_ERROR_FILE", None)
    return spec._replace(env=env)


def marks_of(plan: LaunchPlan) -> tuple[str, ...]:
    """What all processes of this launcher's workers carry, and nobody else's.

    Nodes of a run may share a machine, and a node that was started again shares it with the one before.
    """
    return (f"DDPLAUNCH_LAUNCH_ID={plan.launch_id}",)


def find_stale(
    environ: Mapping[str, str],
    workers: Sequence[WorkerSpec],
    set_by_platform: frozenset[str] = frozenset(),
) -> list[str]:
    """Rank variables left in the launcher's environment that say something else than ours."""
    return sorted(
        name
        for name in RANK_VARIABLES - set_by_platform
        if name in environ and any(environ[name] != worker.env.get(name) for worker in workers)
    )
