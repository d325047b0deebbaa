"""LaunchConfig + Machine -> LaunchPlan. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.plan.devices import Visible, choose, detect_visible
from ddplaunch.plan.environment import (
    attempt_env,
    plan_common_env,
    plan_device_env,
    plan_rank_env,
)
from ddplaunch.plan.model import LaunchPlan, Machine, WorkerSpec, name_node_logs
from ddplaunch.plan.notices import count, describe_ranks_of, plan_notices
from ddplaunch.record import Record

LOOPBACK = "127.0.0.1"


class Agreed(Record):
    """What the nodes of a run have found out together, and what remains this launcher's own."""

    nprocs: tuple[int, ...]
    launch_id: str
    roles: tuple[str, ...] = ()  # empty: all have the same


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
    many, launch_id = config.nnodes > 1, run_id if agreed is None else agreed.launch_id
    plan = LaunchPlan(
        run_id=run_id,
        launch_id=launch_id,
        host=machine.host,
        nnodes=config.nnodes,
        node_rank=config.node_rank,
        gives_ranks=config.gives_ranks,
        nprocs=nprocs,
        roles=() if agreed is None else agreed.roles,
        master_addr=config.master_addr if many or config.master_addr else LOOPBACK,
        master_port=config.master_port,
        control_port=config.control_port if many else None,
        log_directory=_plan_log_directory(config, machine, run_id, launch_id),
        splits_logs=config.streams is not None and config.streams.has_files,
        visible=visible,
        workers=(),
        sources={**config.sources, "nproc_per_node": nproc_source},
        problems=(*config.cluster_problems, *problems, *_find_problems(config, machine, visible, nprocs)),
        notices=(),
    )
    first = sum(nprocs[: config.node_rank])
    workers = plan_node(config, machine, environ, plan, config.node_rank, first)
    plan = plan._replace(workers=workers)
    return plan._replace(notices=plan_notices(config, machine, environ, plan))


def _find_problems(
    config: LaunchConfig, machine: Machine, visible: Visible, nprocs: tuple[int, ...]
) -> tuple[Problem, ...]:
    return (
        *_check_grant(config, visible),
        *_check_interactive_rank(config, sum(nprocs)),
        *_check_interpreter(config, machine),
        *_plan_cores(config, machine, visible, nprocs[config.node_rank])[1],
    )


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
                **attempt_env(rank, 0, 0, plan.master_port, directory),
                **dict(config.overrides),
            },
            devices=plan.visible.devices[local * per : (local + 1) * per],
            cpus=None if cores is None else cores[local],
            output=_plan_output(config, rank, world_size),
            interactive=_is_interactive(config, rank, world_size),
            **_plan_streams(config, local),
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
        return (machine.cpus,) * config.nnodes, count(machine.cpus, "usable CPU"), ()
    cards, per = len(visible.devices), config.gpus_per_proc
    allocation = config.allocation
    if asked == "auto" and not visible.is_listed and not cards and allocation is not None and allocation.gpus:
        # The scheduler counts cards that we have no means to see.
        granted, source = int(allocation.gpus.value), f"{allocation.gpus.source} ({allocation.scheduler})"
        return (max(1, granted // per),) * config.nnodes, source, ()
    problems: tuple[Problem, ...] = ()
    if asked in ("gpu", "xpu") and not cards:
        hint = "--nproc-per-node cpu, or a number, starts workers without one"
        what = f"{source} {asked}: no {asked.upper()} is visible"
        problems = (Problem(what, f"{visible.source} shows none", hint),)
    nproc = max(1, cards // per)
    shared = "" if per == 1 else f", {per} per worker"
    return (nproc,) * config.nnodes, count(cards, f"visible {machine.vendor.noun}") + shared, problems


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


def _check_grant(config: LaunchConfig, visible: Visible) -> tuple[Problem, ...]:
    """A step without GPUs has no list of them; where nothing hides them, that shows all of the machine's."""
    allocation = config.allocation
    if allocation is None or not allocation.grants_gpus or allocation.gpus is not None:
        return ()
    if visible.is_listed or not visible.devices or config.nproc_per_node not in ("auto", "gpu"):
        return ()
    what = f"{allocation.scheduler} has given this job no GPU, and this machine shows {len(visible.devices)}"
    cause = f"neither {visible.variable} nor SLURM_GPUS_ON_NODE is set: the cards may be somebody else's"
    hint = "ask for them (srun --gpus-per-node=N), name them (--gpus LIST), or say --nproc-per-node N"
    return (Problem(what, cause, hint, EXIT_PREFLIGHT),)


def _check_interactive_rank(config: LaunchConfig, world_size: int) -> tuple[Problem, ...]:
    if config.interactive_rank is None or config.interactive_rank < world_size:
        return ()
    what = f"{config.sources['interactive_rank']} {config.interactive_rank}: there is no such rank"
    return (Problem(what, describe_ranks_of(world_size)),)


def _check_interpreter(config: LaunchConfig, machine: Machine) -> tuple[Problem, ...]:
    if not config.preload or config.python in (None, machine.python):
        return ()
    what = f"{config.sources['preload']} and {config.sources['python']} {config.python} contradict each other"
    cause = f"workers are forked from the interpreter that ddplaunch runs on, {machine.python}"
    return (Problem(what, cause, "install ddplaunch there, and start it from there"),)


def _plan_log_directory(config: LaunchConfig, machine: Machine, run_id: str, launch_id: str) -> str | None:
    directory = None if config.log_dir is None else config.log_dir.rstrip("/") or "/"
    if config.streams is not None and config.streams.has_files:  # where torchrun's users look for them
        directory = directory or f"{machine.temporary_directory}/torchelastic_{launch_id}"
        name = "".join(c if c.isalnum() or c in "_-" else "-" for c in config.rdzv_id or "")
        # Its files are named by local rank, and nodes may share the directory.
        return name_node_logs(f"{directory}/{name}{'_' if name else ''}{run_id}", config.node_rank)
    return None if directory is None else f"{directory}/{run_id}"


def _plan_streams(config: LaunchConfig, local_rank: int) -> "dict[str, frozenset[str]]":
    if config.streams is None:
        return {}
    return {"shown": config.streams.shown(local_rank), "kept": config.streams.kept(local_rank)}


def _is_interactive(config: LaunchConfig, rank: int, world_size: int) -> bool:
    """A prompt that waits for somebody to type would look like a stall."""
    return rank == config.interactive_rank or (world_size == 1 and config.stall_timeout is None)


def _plan_output(config: LaunchConfig, rank: int, world_size: int) -> str:
    if rank == config.interactive_rank:  # a prompt has no newline
        return "inherit"
    if config.console is not None and rank not in config.console:
        return "hidden"
    # A run that may shrink to one worker does not change its looks for that.
    mode = config.output or ("prefix" if world_size > 1 or config.gives_ranks else "raw")
    if mode == "prefix":
        return "prefix"
    # What is kept, chosen from, or watched for, has to pass through us.
    passes = config.log_dir is not None or config.stall_timeout is not None or config.streams is not None
    return "plain" if passes else "inherit"
