"""Places in a run that gives out node ranks itself, and nodes that come and go. [pure]

A place is kept as long as its node is there, and nobody sees it. The node ranks of an attempt have no gaps:
node 0 is the one at the master's address, the others come in the order of their hosts, and whoever stays
keeps its rank as long as there are enough nodes for it.
"""

import re
import signal
from collections.abc import Mapping, Sequence

from ddplaunch.errors import EXIT_JOIN, Problem
from ddplaunch.nodes import verdicts
from ddplaunch.nodes.events import Action, Send
from ddplaunch.nodes.messages import DONE, JOINED, UNSEATED, Status, Verdict
from ddplaunch.nodes.roster import Member, Phase, State, refusal
from ddplaunch.nodes.verdicts import End


def find_member(state: State, status: Status) -> Member | None:
    """Who says this, if it is known: at the place it speaks of, or wherever it was put."""
    known = state.members.get(status.node)
    if known is not None and known.status.key == status.key:
        return known
    members = state.members.values() if state.rules.gives_ranks else ()
    return next((member for member in members if member.status.key == status.key), None)


def find_seat(state: State, status: Status) -> int | None:
    """A place for a newcomer: the first that is free.

    A launcher that was killed and started again is another one; where the connection to the one before is
    broken, its machine tells that it comes in its place. Names are not enough: containers may share one.
    """
    machine = (status.hello.host, status.hello.machine)
    for member in state.members.values():
        hello = member.status.hello
        if member.down_since is not None and (hello.host, hello.machine) == machine:
            return member.status.node
    free = [node for node in range(1, state.rules.nnodes) if node not in state.members]
    return free[0] if free else None


def assign_ranks(members: Mapping[int, Member]) -> tuple[int, ...]:
    """The places in the order of their node ranks."""
    count = len(members)
    kept = {member.rank: node for node, member in members.items() if UNSEATED < member.rank < count}
    others = sorted(members.keys() - kept.values(), key=lambda node: _order_of(members[node]))
    gaps = (rank for rank in range(count) if rank not in kept)
    ranks = {**kept, **dict(zip(gaps, others, strict=True))}
    return tuple(ranks[rank] for rank in range(count))


def _order_of(member: Member) -> tuple[bool, int, list[tuple[int, str]], int]:
    """Who had a rank comes before newcomers; n2 before n10."""
    parts = re.split(r"(\d+)", member.status.hello.host)
    host = [(len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in parts]
    return member.rank == UNSEATED, member.rank, host, member.status.node


def describe_full(state: State) -> Problem:
    hosts = [member.name for _, member in sorted(state.members.items())]
    return Problem(
        f"the run has all its {state.rules.nnodes} nodes",
        ", ".join(hosts[:8]),
        "--nnodes MIN:MAX says how many there may be; is another run using this endpoint?",
        EXIT_JOIN,
    )


def find_newcomer(state: State, at: float) -> End | None:
    """A node that waits to be taken in, as long as no other node has finished already."""
    if not state.rules.is_elastic or any(member.status.stage == DONE for member in state.participants):
        return None
    waiting = [one for one in state.members.values() if one.is_ready and one.since > state.attempt]
    if not waiting:
        return None
    status = waiting[0].status
    return End(JOINED, at, state.attempt, status.node, status.hello.host, waiting[0].name)


def may_leave(state: State, member: Member) -> bool:
    """Whether a node that was asked to stop just goes: before the run has begun, or where it takes no part.

    Between two attempts, Ctrl-C is for the run, as it is in the middle of one.
    """
    if not state.rules.is_elastic or member.status.node == 0:
        return False
    if state.phase is Phase.GATHERING:
        return state.attempt == 0 or member.status.interrupted == signal.SIGTERM
    return member.since > state.attempt


def find_departing(state: State) -> tuple[Member, ...]:
    """Nodes that were told to end by SIGTERM, as machines are that somebody else needs: the others go on.

    If they are too few for that, they wait for more, as after a loss. Ctrl-C is somebody who wants the run to
    end, and so is a signal to node 0.
    """
    asked = [member for member in state.members.values() if member.status.interrupted]
    is_own_end = all(m.status.interrupted == signal.SIGTERM and m.status.node != 0 for m in asked)
    return tuple(asked) if state.rules.is_elastic and is_own_end else ()


def dismiss(state: State, leavers: Sequence[Member]) -> tuple[State, tuple[Action, ...]]:
    """These nodes were asked to leave, and the run goes on without them."""
    told = {m.status.node: verdicts.interrupted(m.name, m.status.interrupted) for m in leavers}
    return send_off(state, told)


def send_off(state: State, told: Mapping[int, Verdict]) -> tuple[State, tuple[Action, ...]]:
    """The nodes at these places leave, each with what it is told."""
    members = {node: member for node, member in state.members.items() if node not in told}
    farewells = tuple(
        Send(state.members[node].peer, refusal(state, verdict))
        for node, verdict in told.items()
        if node in state.members
    )
    return state._replace(members=members), farewells
