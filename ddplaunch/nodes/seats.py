"""Places in a run that gives out node ranks itself, and nodes that come and go. [pure]

A place is kept as long as its node is there. The node ranks of an attempt are the places that are taken,
without gaps: a node that stays keeps its rank unless one before it is gone.
"""

import signal
from collections.abc import Sequence

from ddplaunch.errors import EXIT_JOIN, Problem
from ddplaunch.nodes import verdicts
from ddplaunch.nodes.events import Action, Send
from ddplaunch.nodes.messages import DONE, JOINED, Status
from ddplaunch.nodes.roster import Member, Phase, State, refusal
from ddplaunch.nodes.verdicts import End


def find_seat(state: State, status: Status) -> int | None:
    """The place of a node that says it has none: the one it was given before, or the first that is free.

    A launcher that was killed and started again is another one; where the connection to the one before is
    broken, its host tells that it comes in its place.
    """
    for member in state.members.values():
        if member.status.key == status.key:
            return member.status.node
    for member in state.members.values():
        if member.down_since is not None and member.status.hello.host == status.hello.host:
            return member.status.node
    free = [node for node in range(1, state.rules.nnodes) if node not in state.members]
    return free[0] if free else None


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
    return End(JOINED, at, state.attempt, status.node, status.hello.host)


def may_leave(state: State, member: Member) -> bool:
    """Whether the run can do without a node that was asked to stop: it takes no part, or there are enough."""
    if not state.rules.is_elastic or member.status.node == 0:
        return False
    if state.phase is Phase.GATHERING:
        return len(state.members) > state.rules.least
    return member.since > state.attempt


def find_departing(state: State) -> tuple[Member, ...]:
    """Nodes that were told to end by SIGTERM, as machines are that somebody else needs: the others go on.

    Ctrl-C is somebody who wants the run to end, and so is a signal to node 0.
    """
    asked = [member for member in state.members.values() if member.status.interrupted]
    is_own_end = all(m.status.interrupted == signal.SIGTERM and m.status.node != 0 for m in asked)
    is_enough = len(state.members) - len(asked) >= state.rules.least
    return tuple(asked) if state.rules.is_elastic and is_own_end and is_enough else ()


def dismiss(state: State, leavers: Sequence[Member]) -> tuple[State, tuple[Action, ...]]:
    """These nodes leave, and the run goes on without them."""
    gone = {member.status.node for member in leavers}
    members = {node: member for node, member in state.members.items() if node not in gone}
    farewells = tuple(
        Send(member.peer, refusal(state, verdicts.interrupted(member.status))) for member in leavers
    )
    return state._replace(members=members), farewells
