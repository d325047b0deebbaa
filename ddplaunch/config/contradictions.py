"""Settings that do not go together. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.variables import RESERVED
from ddplaunch.errors import Problem
from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def quote(source: str, raw: object) -> str:
    """A value as the user wrote it, with where."""
    shown = " ".join(map(str, raw)) if isinstance(raw, tuple) else str(raw)
    return f"{source} {shown!r}" if source.startswith("-") else f"{source}={shown!r}"


def find_contradictions(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    nnodes, node_rank, nproc = values["nnodes"], values["node_rank"], values["nproc_per_node"]
    if node_rank >= nnodes and not values["gives_ranks"]:
        which = "the only node rank is 0" if nnodes == 1 else f"node ranks are 0 to {nnodes - 1}"
        nodes = "1 node" if nnodes == 1 else f"{nnodes} nodes"
        where = quote(sources["node_rank"], node_rank)
        problems.append(
            Problem(
                f"{where}: there is no such node",
                f"with {nodes} ({sources['nnodes']}), {which}",
                "node ranks count from 0; --nnodes is the number of machines",
            )
        )
    if isinstance(nproc, tuple) and len(nproc) not in (1, nnodes):
        problems.append(
            Problem(
                f"{sources['nproc_per_node']} names {len(nproc)} nodes, and there are {nnodes}",
                hint="give one number for all nodes, or one per node",
            )
        )
    if isinstance(nproc, tuple) and len(nproc) > 1 and values["gives_ranks"]:
        cause = "the run gives out node ranks, and nobody knows which node this will be"
        hint = "each node says its own --nproc-per-node: they are added up"
        problems.append(Problem(f"{sources['nproc_per_node']} names nodes by rank", cause, hint))
    if nnodes > 1 and values["master_port"] == 0 and not values["gives_ranks"]:
        problems.append(
            Problem(
                "a picked port cannot be known on other nodes",
                f"{sources['master_port']} is 0, and there are {nnodes} nodes",
                "name the same --master-port on every node",
            )
        )
    problems += _check_control_port(values, sources)
    return problems + _contradicting_options(values, sources)


def _check_control_port(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    port = values["control_port"]
    if values["nnodes"] == 1 or port not in (values["master_port"], 65536):
        return []
    cause = f"{sources['master_port']} is {values['master_port']}, and the launchers need a port of their own"
    return [Problem("no port for the control channel", cause, "name another --control-port on every node")]


def _contradicting_options(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    if values["no_python"] and values["module"]:
        problems.append(Problem("-m and --no-python contradict each other", hint="a module needs Python"))
    if values["no_python"] and values["python"]:
        problems.append(Problem("--python and --no-python contradict each other"))
    for option, reason in (("no_python", "a program that is not Python"), ("wrap", "a command of its own")):
        if values["preload"] and values[option]:
            what = f"{sources['preload']} and {sources[option]} contradict each other"
            problems.append(Problem(what, f"workers are forked, and {reason} has to be started"))
    if values["wrap_ranks"] is not None and not values["wrap"]:
        problems.append(Problem("--wrap-ranks without --wrap", hint="say what to wrap them in: --wrap CMD"))
    if values["stall_timeout"] is not None and values["interactive_rank"] is not None:
        cause = "a prompt that waits for somebody to type looks like a stall"
        problems.append(Problem("--stall-timeout and --interactive-rank contradict each other", cause))
    if values["log_max_bytes"] is not None and values["log_dir"] is None:
        problems.append(Problem("--log-max-bytes without --log-dir", hint="say where: --log-dir DIR"))
    if sources["format"] == "--format" and not (values["dry_run"] or values["check"]):
        problems.append(Problem("--format without --dry-run", hint="--dry-run prints, and starts nothing"))
    asked = [name for name in ("--check", "--dry-run", "--emit") if values[name[2:].replace("-", "_")]]
    if len(asked) > 1:
        what = f"{' and '.join(asked)} contradict each other"
        problems.append(Problem(what, hint="one report at a time"))
    if values["check"] and values["format"] == "shell":
        problems.append(Problem("--check has no --format shell", hint="--format json is for programs"))
    if values["emit"] and values["gives_ranks"]:
        hint = "--nnodes with one number, and no --rdzv-backend: the job file says how the nodes meet"
        problems.append(Problem("--emit is for runs of a fixed size", hint=hint))
    taken = sorted(name for name, _ in values["env"] if name in RESERVED)
    if taken:
        problems.append(
            Problem(f"--env cannot set {', '.join(taken)}", "the launcher computes it for each worker")
        )
    return problems
