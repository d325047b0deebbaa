"""What a user should know about a plan that is not wrong. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.resolve import LaunchConfig, find_unknown_variables
from ddplaunch.plan.environment import find_stale
from ddplaunch.plan.model import LaunchPlan, Machine


def plan_notices(
    config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan
) -> tuple[str, ...]:
    notices = []
    allocation = config.allocation
    stale = find_stale(environ, plan.workers, frozenset() if allocation is None else allocation.sets)
    if stale and not config.cluster_problems:
        ignored = ", ".join(f"{name}={environ[name]}" for name in stale)
        notices.append(f"ignored {ignored} from the environment; workers get their own")
    unknown = find_unknown_variables(environ)
    if unknown:
        notices.append(f"no option reads {', '.join(unknown)} from the environment")
    for name, ranks in (("console", config.console), ("wrap_ranks", config.wrap_ranks)):
        absent = sorted(rank for rank in ranks or () if rank >= plan.world_size)
        if absent:
            said = f"{config.sources[name]} names {', '.join(map(str, absent[:8]))}"
            notices.append(f"{said}; {describe_ranks_of(plan.world_size)}")
    if plan.splits_logs and plan.log_directory is not None and config.log_dir is None:
        kept = plan.log_directory.rpartition("/")[0]  # what follows is known when the nodes have agreed
        notices.append(f"streams are kept in {kept}; --log-dir says where else")
    if config.numa_binding is not None and not machine.cpu_map:
        notices.append("--numa-binding is ignored: this system does not tell how its CPUs hang together")
    if allocation is not None and machine.cpus < min(len(plan.workers), machine.all_cpus):
        notices.append(_describe_crowd(allocation.scheduler, machine.cpus, len(plan.workers)))
    if machine.other_environment and not config.python and not config.no_python:
        active = machine.other_environment
        notices.append(f"workers run on {machine.python}, but the active environment is {active}")
    return tuple(notices)


def describe_ranks_of(world_size: int) -> str:
    return "the only rank is 0" if world_size == 1 else f"ranks are 0 to {world_size - 1}"


def _describe_crowd(scheduler: str, cpus: int, workers: int) -> str:
    """Schedulers bind a task to the cores it asked for; to one, if it asked for none."""
    remedy = "mpirun --bind-to none" if scheduler == "OpenMPI" else "ask for cores"
    remedy = f"srun --cpus-per-task={workers}, or more" if scheduler == "Slurm" else remedy
    return f"{workers} workers share {count(cpus, 'CPU')}: {scheduler} gives this launcher no more ({remedy})"


def count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number < 2 else 's'}"
