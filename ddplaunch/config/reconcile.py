"""What the user said beside what the scheduler says: explicit words win, contradictions are told. [pure]"""

from collections.abc import Mapping

from ddplaunch.cluster.model import PLACE, TOPOLOGY, Allocation, Found, answers_place
from ddplaunch.config.line import CommandLine, render_command_line
from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any


class Offer(Record):
    """What the scheduler adds to the user's own words, or what is wrong between the two."""

    values: Mapping[str, Found]
    problems: tuple[Problem, ...] = ()


def reconcile(
    allocation: Allocation, line: CommandLine, values: "Mapping[str, Any]", sources: Mapping[str, str]
) -> Offer:
    """`values` and `sources` as the user gave them; whose source is `default`, nobody gave."""
    offered = allocation.values
    beside = {name: found for name, found in offered.items() if name not in TOPOLOGY}
    if values["standalone"]:
        return Offer(beside)
    given = {name: values[name] for name in TOPOLOGY if sources[name] != "default"}
    if allocation.problems:
        return Offer(beside, () if allocation.is_answered(given) else allocation.problems)
    if values["gives_ranks"]:  # the run says who is who: the scheduler knows how many, and where to meet
        return Offer({name: found for name, found in offered.items() if name != "node_rank"})
    differing = [name for name in PLACE if name in given and name in offered]
    differing = [name for name in differing if offered[name].value != given[name]]
    if answers_place(given):  # nodes were placed by other means, unless there are as many
        return Offer(beside if "nnodes" in differing else offered)
    if differing:
        return Offer(beside, (_describe_difference(allocation, line, differing[0], values, sources),))
    rank = None if "nnodes" in offered or "node_rank" in given else offered.get("node_rank")
    if rank is not None and int(rank.value) >= values["nnodes"]:
        return Offer(beside, (_describe_surplus(rank, values["nnodes"], sources["nnodes"]),))
    return Offer(offered)


def _describe_difference(
    allocation: Allocation,
    line: CommandLine,
    name: str,
    values: "Mapping[str, Any]",
    sources: Mapping[str, str],
) -> Problem:
    found, given, option = allocation.values[name], values[name], "--" + name.replace("_", "-")
    options = {key: value for key, value in line.options.items() if key != name}
    hint = f"leave {option} out: {render_command_line(line._replace(options=options))}"
    if not sources[name].startswith("-"):
        hint = f"unset {sources[name]}"
    if name == "nnodes" and allocation.scheduler == "Slurm":
        hint = (
            f"srun --nodes={given} --ntasks={given} --ntasks-per-node=1 {render_command_line(line)}; or "
            + hint
        )
    if name == "nnodes" and given == 1:
        hint = "--standalone instead, if each node is a run of its own; or " + hint.rpartition("; or ")[2]
    here = f"started ddplaunch on {found.value} nodes" if name == "nnodes" else f"says {found.value}"
    return Problem(
        f"{sources[name]} is {given}, and {allocation.scheduler} {here}",
        f"{found.source} is {found.value}",
        hint,
        EXIT_PREFLIGHT,
    )


def _describe_surplus(rank: Found, nnodes: int, source: str) -> Problem:
    return Problem(
        f"{rank.source} is {rank.value}, and there are {nnodes} nodes ({source})",
        f"with {nnodes} nodes, node ranks are 0 to {nnodes - 1}",
        "--nnodes is the number of all nodes; --standalone, if each is a run of its own",
        EXIT_PREFLIGHT,
    )
