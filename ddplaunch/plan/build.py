"""LaunchConfig + Machine -> LaunchPlan. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.resolve import LaunchConfig, find_unknown_variables
from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.plan.devices import Visible, choose, detect_visible
from ddplaunch.plan.environment import (
    attempt_env,
    find_stale,
    plan_common_env,
    plan_device_env,
    plan_rank_env,
)
from ddplaunch.plan.model import LaunchPlan, Machine, WorkerSpec
from ddplaunch.record import Record

LOOPBACK = "127.0.0.1"


class Agreed(Record):
    """What the nodes of a run have found out together, and what remains this launcher's own."""

    nprocs: tuple[int, ...]
    launch_id: str


def plan_launch(
    config: LaunchConfig,
    machine: Machine,
    environ: Mapping[str, str],
    run_id: str,
    agreed: "Agreed | None" = None,
) -> LaunchPlan:
    """The whole run as seen from this node; the same inputs give the same plan.

    Until the nodes have `agreed`, others are taken to be like this one.
    """
    visible = detect_visible({**environ, **dict(config.env)}, machine.vendor)
    if config.gpus is not None:
        visible = choose(visible, config.gpus, f"{config.sources['gpus']} {','.join(map(str, config.gpus))}")
    nprocs, nproc_source, problems = _plan_nprocs(config, machine, visible)
    nprocs = nprocs if agreed is None else agreed.nprocs
    many = config.nnodes > 1
    plan = LaunchPlan(
        run_id=run_id,
        launch_id=run_id if agreed is None else agreed.launch_id,
        host=machine.host,
        nnodes=config.nnodes,
        node_rank=config.node_rank,
        nprocs=nprocs,
        master_addr=config.master_addr if many or config.master_addr else LOOPBACK,
        master_port=config.master_port,
        control_port=config.control_port if many else None,
        log_directory=None if config.log_dir is None else f"{config.log_dir.rstrip('/') or '/'}/{run_id}",
        visible=visible,
        workers=(),
        sources={**config.sources, "nproc_per_node": nproc_source},
        problems=(
            *problems,
            *_check_interactive_rank(config, sum(nprocs)),
            *_plan_cores(config, machine, visible, nprocs[config.node_rank])[1],
        ),
        notices=(),
    )
    first = sum(nprocs[: config.node_rank])
    workers = plan_node(config, machine, environ, plan, config.node_rank, first)
    plan = plan._replace(workers=workers)
    return plan._replace(notices=_plan_notices(config, machine, environ, plan))


def plan_node(
    config: LaunchConfig,
    machine: Machine,
    environ: Mapping[str, str],
    plan: LaunchPlan,
    node_rank: int,
    first: int,
) -> tuple[WorkerSpec, ...]:
    """The workers of one node, by local rank; `first` is the rank of its first one."""
    nproc, world_size = plan.nprocs[node_rank], plan.world_size
    common = plan_common_env(config, machine, environ, nproc)
    directory = run_directory(machine, plan)
    cores, _ = _plan_cores(config, machine, plan.visible, nproc)
    per = config.gpus_per_proc
    return tuple(
        WorkerSpec(
            rank=rank,
            local_rank=local,
            node_rank=node_rank,
            argv=plan_argv(config, machine, rank, local, world_size, node_rank),
            env={
                **common,
                **plan_device_env(config, plan.visible, local),
                **plan_rank_env(config, plan, node_rank, rank, local, world_size),
                **attempt_env(rank, 0, plan.master_port, directory),
            },
            devices=plan.visible.devices[local * per : (local + 1) * per],
            cpus=None if cores is None else cores[local],
            output=_plan_output(config, rank, world_size),
            interactive=_is_interactive(config, rank, world_size),
        )
        for local, rank in enumerate(range(first, first + nproc))
    )


def plan_argv(
    config: LaunchConfig, machine: Machine, rank: int, local_rank: int, world_size: int, node_rank: int
) -> tuple[str, ...]:
    """The worker's command line; the script's own arguments are never rewritten."""
    argv: tuple[str, ...] = () if config.no_python else (config.python or machine.python, "-u")
    if config.module:
        argv += ("-m", config.script)
    else:  # a script called -x.py is not an option
        argv += (f"./{config.script}" if config.script.startswith("-") else config.script,)
    if config.pass_local_rank == "dash":
        argv += (f"--local-rank={local_rank}",)
    elif config.pass_local_rank == "underscore":
        argv += (f"--local_rank={local_rank}",)
    argv += config.script_args
    if not config.wrap or (config.wrap_ranks is not None and rank not in config.wrap_ranks):
        return argv
    known = {"rank": rank, "local_rank": local_rank, "node_rank": node_rank, "world_size": world_size}
    return tuple(_fill(word, known) for word in config.wrap) + argv


def run_directory(machine: Machine, plan: LaunchPlan) -> str:
    """Where the files of a run live that nobody asked to keep."""
    return f"{machine.temporary_directory}/ddplaunch-{plan.launch_id}"


def _fill(word: str, known: Mapping[str, int]) -> str:
    """Only the four names are filled in: other braces belong to the wrapped command."""
    for name, value in known.items():
        word = word.replace("{" + name + "}", str(value))
    return word


def _plan_nprocs(
    config: LaunchConfig, machine: Machine, visible: Visible
) -> tuple[tuple[int, ...], str, tuple[Problem, ...]]:
    """Workers of each node, where the number came from, and what is wrong with it."""
    asked, source = config.nproc_per_node, config.sources["nproc_per_node"]
    if isinstance(asked, tuple):
        return (asked * config.nnodes if len(asked) == 1 else asked), source, ()
    if asked == "cpu":
        return (machine.cpus,) * config.nnodes, _count(machine.cpus, "usable CPU"), ()
    cards, per = len(visible.devices), config.gpus_per_proc
    problems: tuple[Problem, ...] = ()
    if asked in ("gpu", "xpu") and not cards:
        hint = "--nproc-per-node cpu, or a number, starts workers without one"
        what = f"{source} {asked}: no {asked.upper()} is visible"
        problems = (Problem(what, f"{visible.source} shows none", hint),)
    nproc = max(1, cards // per)
    shared = "" if per == 1 else f", {per} per worker"
    return (nproc,) * config.nnodes, _count(cards, f"visible {machine.vendor.noun}") + shared, problems


def _plan_cores(
    config: LaunchConfig, machine: Machine, visible: Visible, nproc: int
) -> tuple[tuple[tuple[int, ...], ...] | None, tuple[Problem, ...]]:
    """The CPUs of each worker of a node (None: they are not bound), and what is in the way of that."""
    if config.numa_binding is None or not machine.cpu_map:
        return None, ()
    from ddplaunch.plan.cores import CannotBindError, bind_workers

    try:
        return bind_workers(config.numa_binding, machine.cpu_map, _find_homes(config, visible, nproc)), ()
    except CannotBindError as error:
        what = f"{config.sources['numa_binding']} {config.numa_binding}: not enough cores"
        hint = "fewer workers, or --numa-binding node"
        return None, (Problem(what, str(error), hint, EXIT_PREFLIGHT),)


def _find_homes(config: LaunchConfig, visible: Visible, nproc: int) -> list[int | None]:
    """The NUMA node of each worker's first card, where it is known."""
    cards = visible.cards[:: config.gpus_per_proc][:nproc]
    homes = [None if card is None else card.numa_node for card in cards]
    return homes + [None] * (nproc - len(homes))


def _check_interactive_rank(config: LaunchConfig, world_size: int) -> tuple[Problem, ...]:
    if config.interactive_rank is None or config.interactive_rank < world_size:
        return ()
    what = f"{config.sources['interactive_rank']} {config.interactive_rank}: there is no such rank"
    return (Problem(what, _describe_ranks_of(world_size)),)


def _describe_ranks_of(world_size: int) -> str:
    return "the only rank is 0" if world_size == 1 else f"ranks are 0 to {world_size - 1}"


def _is_interactive(config: LaunchConfig, rank: int, world_size: int) -> bool:
    """A prompt that waits for somebody to type would look like a stall."""
    return rank == config.interactive_rank or (world_size == 1 and config.stall_timeout is None)


def _plan_output(config: LaunchConfig, rank: int, world_size: int) -> str:
    if rank == config.interactive_rank:  # a prompt has no newline
        return "inherit"
    if config.console is not None and rank not in config.console:
        return "hidden"
    mode = config.output or ("prefix" if world_size > 1 else "raw")
    if mode == "prefix":
        return "prefix"
    # What is kept, or watched for, has to pass through us.
    return "inherit" if config.log_dir is None and config.stall_timeout is None else "plain"


def _plan_notices(
    config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan
) -> tuple[str, ...]:
    notices = []
    stale = find_stale(environ, plan.workers)
    if stale:
        ignored = ", ".join(f"{name}={environ[name]}" for name in stale)
        notices.append(f"ignored {ignored} from the environment; workers get their own")
    unknown = find_unknown_variables(environ)
    if unknown:
        notices.append(f"no option reads {', '.join(unknown)} from the environment")
    for name, ranks in (("console", config.console), ("wrap_ranks", config.wrap_ranks)):
        absent = sorted(rank for rank in ranks or () if rank >= plan.world_size)
        if absent:
            said = f"{config.sources[name]} names {', '.join(map(str, absent[:8]))}"
            notices.append(f"{said}; {_describe_ranks_of(plan.world_size)}")
    if config.numa_binding is not None and not machine.cpu_map:
        notices.append("--numa-binding is ignored: this system does not tell how its CPUs hang together")
    if machine.other_environment and not config.python and not config.no_python:
        active = machine.other_environment
        notices.append(f"workers run on {machine.python}, but the active environment is {active}")
    return tuple(notices)


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number < 2 else 's'}"
