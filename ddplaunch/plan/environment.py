"""The variables a worker gets. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.resolve import RESERVED, LaunchConfig
from ddplaunch.plan.model import Machine, WorkerSpec


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
    }
    env = {name: value for name, value in wishes.items() if name not in environ}
    if config.omp_threads:
        env["OMP_NUM_THREADS"] = str(threads)
    return {**env, **dict(config.env)}


def plan_rank_env(
    config: LaunchConfig,
    run_id: str,
    nprocs: tuple[int, ...],
    node_rank: int,
    local_rank: int,
    master_addr: str | None,
) -> dict[str, str]:
    """Who this worker is, in torch's words."""
    rank = sum(nprocs[:node_rank]) + local_rank
    world_size = sum(nprocs)
    env = {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(nprocs[node_rank]),
        "NODE_RANK": str(node_rank),
        "GROUP_RANK": str(node_rank),
        "GROUP_WORLD_SIZE": str(len(nprocs)),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world_size),
        "TORCHELASTIC_MAX_RESTARTS": str(config.max_restarts),
        "TORCHELASTIC_RUN_ID": run_id,
        # "True" would make every rank a client of a store in the launcher; rank 0 hosts it here.
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "DDPLAUNCH_RUN_ID": run_id,
    }
    if master_addr is not None:
        env["MASTER_ADDR"] = master_addr
    return env


def attempt_env(rank: int, attempt: int, master_port: int, run_directory: str) -> dict[str, str]:
    """What changes from one attempt to the next."""
    return {
        "MASTER_PORT": str(master_port),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_ERROR_FILE": error_file(run_directory, attempt, rank),
        "DDPLAUNCH_ATTEMPT": str(attempt),
    }


def error_file(run_directory: str, attempt: int, rank: int) -> str:
    """Where `@record` in the script may leave its error."""
    return f"{run_directory}/attempt_{attempt}_rank_{rank}_error.json"


def for_attempt(spec: WorkerSpec, attempt: int, master_port: int, run_directory: str) -> WorkerSpec:
    """The same worker in another attempt."""
    env = {**spec.env, **attempt_env(spec.rank, attempt, master_port, run_directory)}
    return spec._replace(env=env)


def find_stale(environ: Mapping[str, str], spec: WorkerSpec) -> list[str]:
    """Rank variables left in the launcher's environment that say something else than ours."""
    return sorted(name for name in RESERVED if name in environ and environ[name] != spec.env.get(name))
