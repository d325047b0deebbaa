"""Whether a node that comes to a run is taken in, turned away, or ends the run before it began. [pure]"""

from ddplaunch.errors import EXIT_JOIN, Problem
from ddplaunch.nodes.agreement import find_disagreements, find_doubts
from ddplaunch.nodes.messages import LOOKING, READY, UNSEATED, Status
from ddplaunch.record import Record


class Decision(Record):
    """No problems: it is taken in."""

    problems: tuple[Problem, ...] = ()
    concerns_all: bool = False  # the nodes of one run do not fit together: nobody starts
    warnings: tuple[str, ...] = ()


def receive_newcomer(
    status: Status,
    *,
    first: Status,
    run_id: str,
    is_local: bool,
    rival: Status | None,
    is_forming: bool,
    has_room: bool,
) -> Decision:
    """`first` is node 0's own status, `rival` the present holder of the node rank.

    While a run forms, a mistake of one node is a mistake of the run. Once it runs, it is the newcomer's.
    """
    ours, theirs = first.hello, status.hello
    node = UNSEATED if ours.gives_ranks else status.node
    if is_local:
        return Decision()
    if ours.purpose != theirs.purpose or ours.run_name != theirs.run_name:
        return Decision(find_disagreements(ours, node, theirs))
    if rival is not None:
        return Decision((_describe_rivals(status, rival),), is_forming)
    if status.ending is not None and status.ending.problems:  # it cannot start anyway, and says why
        return Decision() if is_forming else Decision(status.ending.problems)
    if status.run_id not in ("", run_id) and status.stage not in (LOOKING, READY):
        return Decision((_describe_stray(status),))
    disagreements = find_disagreements(ours, node, theirs)
    if disagreements:
        return Decision(disagreements, is_forming)
    if not 0 < node < ours.nnodes and not ours.gives_ranks:
        what = f"node rank {node}: there is no such node"
        return Decision((Problem(what, f"with {ours.nnodes} nodes", exit_code=EXIT_JOIN),))
    if not has_room:
        return Decision((_describe_late(status),))
    return Decision(warnings=find_doubts(ours, node, theirs))


def _describe_rivals(status: Status, rival: Status) -> Problem:
    hosts = sorted((rival.hello.host, status.hello.host))
    where = f"{hosts[0]} and {hosts[1]}" if hosts[0] != hosts[1] else f"two launchers on {hosts[0]}"
    return Problem(
        f"node rank {status.node} was given twice",
        f"{where} both say --node-rank {status.node}",
        "each node has a --node-rank of its own, from 0 (the master) to nnodes - 1",
        EXIT_JOIN,
    )


def _describe_stray(status: Status) -> Problem:
    return Problem("node 0 was lost", f"another run answers in its place, {status.run_id}", "", EXIT_JOIN)


def _describe_late(status: Status) -> Problem:
    return Problem(
        f"the run has started without this node{_name_rank(status)}",
        "a run takes a node in again only after it was lost, and while --max-restarts allows another attempt",
        "is another run using this master and port?",
        EXIT_JOIN,
    )


def _name_rank(status: Status) -> str:
    return "" if status.hello.gives_ranks else f" (node rank {status.node})"
