"""The plan as --dry-run shows it: for people, for programs, for a shell. [pure]"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ddplaunch.cluster.model import Allocation
from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.config.settings import DEFAULT_MASTER_PORT
from ddplaunch.plan.build import plan_node
from ddplaunch.plan.cores import describe_cpus
from ddplaunch.plan.model import LaunchPlan, Machine, WorkerSpec
from ddplaunch.record import Record

# What a reader of --dry-run wants explained even when nobody set it.
_ALWAYS_SHOWN = ("nnodes", "node_rank", "nproc_per_node", "master_addr", "master_port")

_ABOUT_SHOWING = ("dry_run", "format", "debug")


class Table(Record):
    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def plan_all_nodes(
    config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan
) -> tuple[WorkerSpec, ...]:
    """Every node's workers in rank order, other nodes taken to be like this one."""
    workers: list[WorkerSpec] = []
    for node_rank in range(plan.nnodes):
        workers += plan_node(config, machine, environ, plan, node_rank, first=len(workers))
    return tuple(workers)


def render_json(plan: LaunchPlan, workers: Sequence[WorkerSpec]) -> str:
    document = {
        "nnodes": plan.nnodes,
        "node_rank": plan.node_rank,
        "world_size": plan.world_size,
        "master_addr": plan.master_addr,
        "master_port": plan.master_port,
        "control_port": plan.control_port,
        "sources": {name: source for name, source in plan.sources.items() if _is_told(name, source)},
        "workers": [
            {
                "rank": worker.rank,
                "local_rank": worker.local_rank,
                "node_rank": worker.node_rank,
                "devices": list(worker.devices),
                "cpus": None if worker.cpus is None else list(worker.cpus),
                "argv": list(worker.argv),
                "env": dict(worker.env),
            }
            for worker in workers
        ],
    }
    return json.dumps(document, indent=2)


def render_shell(plan: LaunchPlan) -> str:
    """One line per worker of this node; pasted into terminals, they find each other.

    The error file is left out: its directory exists only during a run. A port that would be picked is
    torch's default here, because nobody picks one for pasted lines.
    """
    lines = []
    for worker in plan.workers:
        env = {name: value for name, value in worker.env.items() if name != "TORCHELASTIC_ERROR_FILE"}
        if env["MASTER_PORT"] == "0":
            env["MASTER_PORT"] = str(DEFAULT_MASTER_PORT)
        if all(name.isascii() and name.isidentifier() for name in env):
            settings = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
        else:  # a name like A-B is none to a shell, but env(1) takes it
            settings = ["env", *(shlex.quote(f"{name}={value}") for name, value in env.items())]
        lines.append(" ".join([*settings, shlex.join(worker.argv)]))
    return "\n".join(lines)


def render_tables(
    config: LaunchConfig, plan: LaunchPlan, workers: Sequence[WorkerSpec]
) -> tuple[Table, Table]:
    return _worker_table(plan, workers), _settings_table(config, plan)


def render_command(plan: LaunchPlan) -> str:
    """One worker's command, in one line that can be copied."""
    return f"rank {plan.workers[0].rank} runs: {shlex.join(plan.workers[0].argv)}"


def _worker_table(plan: LaunchPlan, workers: Sequence[WorkerSpec]) -> Table:
    columns: dict[str, list[str]] = {"node": [], "rank": [], "local rank": [], "devices": [], "cores": []}
    for worker in workers:
        here = " (this one)" if worker.node_rank == plan.node_rank and plan.nnodes > 1 else ""
        columns["node"].append("" if worker.local_rank else f"{worker.node_rank}{here}")
        columns["rank"].append(str(worker.rank))
        columns["local rank"].append(str(worker.local_rank))
        columns["devices"].append(",".join(worker.devices))
        columns["cores"].append("" if worker.cpus is None else describe_cpus(worker.cpus))
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    noun = "worker" if plan.world_size == 1 else "workers"
    title = f"{plan.world_size} {noun} on {plan.nnodes} {'node' if plan.nnodes == 1 else 'nodes'}"
    return Table(title, tuple(shown), tuple(zip(*shown.values(), strict=True)))


def _settings_table(config: LaunchConfig, plan: LaunchPlan) -> Table:
    values = {**config._asdict(), "nproc_per_node": plan.nprocs, "master_addr": plan.master_addr}
    rows = tuple(
        (name.replace("_", " "), _show(config, name, values[name]), source)
        for name, source in plan.sources.items()
        if _is_told(name, source)
    )
    if config.allocation is not None:
        rows = (("cluster", _describe_allocation(config.allocation), config.allocation.scheduler), *rows)
    return Table("settings", ("setting", "value", "from"), rows)


def _describe_allocation(allocation: Allocation) -> str:
    return f"job {allocation.job}" if allocation.job else "detected"


def _is_told(name: str, source: str) -> bool:
    return name in _ALWAYS_SHOWN or (source != "default" and name not in _ABOUT_SHOWING)


def _show(config: LaunchConfig, name: str, value: Any) -> str:
    if name == "nproc_per_node":
        return str(value[0]) if len(set(value)) == 1 else ",".join(map(str, value))
    if name == "nnodes" and config.min_nnodes:
        return f"{config.min_nnodes}:{value}"
    if name == "master_port" and value == 0:
        return "picked at launch"
    if name == "master_addr" and value is None:
        return "missing: a launch needs it"
    if name in ("env", "overrides"):
        return " ".join(f"{key}={setting}" for key, setting in value)
    if isinstance(value, (tuple, frozenset)):
        return " ".join(map(str, sorted(value) if isinstance(value, frozenset) else value)) or "none"
    if value is None or value is True:
        return "all" if value is None else "yes"
    return str(value)
