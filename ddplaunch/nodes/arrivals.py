"""Hearing from nodes: from those that belong to the run, from newcomers, from strangers. [pure]"""

from ddplaunch.nodes import verdicts
from ddplaunch.nodes.events import LOCAL, Action, Heard, Misheard, Say, Send
from ddplaunch.nodes.messages import LEFT, SIGNAL, UNSEATED
from ddplaunch.nodes.newcomers import Decision, receive_newcomer
from ddplaunch.nodes.roster import (
    LATE_SECONDS,
    Member,
    Phase,
    State,
    leave,
    lose,
    orders_for,
    refusal,
    with_member,
)
from ddplaunch.nodes.seats import describe_full, dismiss, find_seat, may_leave
from ddplaunch.nodes.verdicts import End

MOST_TURNED_AWAY = 8
MOST_WARNINGS = 8


def hear(state: State, event: Heard) -> tuple[State, tuple[Action, ...]]:
    if event.status.node != UNSEATED:
        return _hear_seated(state, event)
    seat = find_seat(state, event.status)
    if seat is None:
        return state, (Send(event.peer, refusal(state, verdicts.refuse((describe_full(state),)))),)
    state, actions = _hear_seated(state, event._replace(status=event.status._replace(node=seat)))
    return state, tuple(_tell_seat(action, event.peer, seat) for action in actions)


def _tell_seat(action: Action, peer: bytes, seat: int) -> Action:
    is_answer = isinstance(action, Send) and action.peer == peer
    return Send(peer, action.orders._replace(seat=seat)) if is_answer and isinstance(action, Send) else action


def _hear_seated(state: State, event: Heard) -> tuple[State, tuple[Action, ...]]:
    status, peer = event.status, event.peer
    known = state.members.get(status.node)
    if known is None or known.status.key != status.key:
        return _hear_newcomer(state, event, known)
    if status.number <= known.status.number:  # replayed, or overtaken by what it said since
        return state, ()
    member = Member(status, peer, known.since, _find_end(state, known, event))
    if status.interrupted and may_leave(state, member):
        return dismiss(state, (member,))
    state = with_member(state, member)
    return state, (Send(peer, orders_for(state, member)),)


def _find_end(state: State, known: Member, event: Heard) -> End | None:
    """Why this node's attempt ends: the first it said of it, unless it is of another kind by now."""
    status, end = event.status, known.end
    is_present = status.attempt == state.attempt or state.phase is Phase.GATHERING
    if status.ending is not None and is_present:
        is_news = end is None or (end.attempt, end.kind) != (status.attempt, status.ending.kind)
        end = verdicts.date_ending(status, event.at) if is_news else end
    has_none = end is None or end.attempt != state.attempt
    if status.interrupted and has_none and state.phase is Phase.RUNNING:
        # It was asked to stop just when the attempt began, and does not begin it.
        signum = status.interrupted
        end = End(SIGNAL, event.at, state.attempt, status.node, status.hello.host, signum=signum)
    return end


def _hear_newcomer(state: State, event: Heard, known: Member | None) -> tuple[State, tuple[Action, ...]]:
    status, peer = event.status, event.peer
    if state.phase in (Phase.LEAVING, Phase.OVER) or status.stage == LEFT:
        return state, (Send(peer, state.orders),)
    if status.interrupted and state.rules.is_elastic:
        return state, (Send(peer, refusal(state, verdicts.interrupted(status))),)
    first = state.members.get(0)
    decision = receive_newcomer(
        status,
        first=status if first is None else first.status,
        is_local=peer == LOCAL,
        run_id=state.rules.run_id,
        rival=known.status if known is not None and known.down_since is None else None,
        is_forming=state.phase is Phase.GATHERING and state.attempt == 0 and not state.rules.is_elastic,
        has_room=state.phase is Phase.GATHERING or state.may_restart or state.rules.is_elastic,
    )
    if decision.problems and decision.concerns_all:
        state, actions = leave(state, event.at, verdicts.refuse(decision.problems), LATE_SECONDS)
        return state, (Send(peer, state.orders), *actions)
    if decision.problems:
        return state, (Send(peer, refusal(state, verdicts.refuse(decision.problems))),)
    if known is not None:  # it was started again: the one before is lost
        state = lose(state, known, known.down_since or event.at)
    return _admit(state, event, decision)


def _admit(state: State, event: Heard, decision: Decision) -> tuple[State, tuple[Action, ...]]:
    status, at = event.status, event.at
    is_early = state.phase is Phase.GATHERING
    end = verdicts.date_ending(status, at) if status.ending is not None and is_early else None
    since = state.attempt if is_early else state.attempt + 1
    member = Member(status, event.peer, since, end)
    state = with_member(state, member)
    if is_early and state.attempt == 0:
        state = state._replace(gather_until=min(state.gather_until, at + status.hello.join_seconds))
    warnings = (*state.orders.warnings, *decision.warnings)[:MOST_WARNINGS]
    state = state._replace(orders=state.orders._replace(warnings=warnings))
    return state, (Send(event.peer, orders_for(state, member)),)


def mishear(state: State, event: Misheard) -> tuple[Action, ...]:
    """Another version is told so, in words of ours that it may understand; noise is not answered."""
    if event.version is None:
        return ()
    return (Send(event.peer, refusal(state, verdicts.refuse_version(event.version))),)


def miss(state: State, peer: bytes, at: float) -> State:
    """A connection is gone; whose it was has a while to come back."""
    for member in state.members.values():
        if member.peer == peer and peer != LOCAL and member.down_since is None:
            return with_member(state, member._replace(down_since=at))
    return state


def turn_away(state: State, address: str) -> tuple[State, tuple[Action, ...]]:
    if not address or address in state.turned_away or len(state.turned_away) >= MOST_TURNED_AWAY:
        return state, ()
    state = state._replace(turned_away=(*state.turned_away, address))
    why = "it has another DDPLAUNCH_TOKEN, or none, or is no ddplaunch"
    return state, (Say(f"note: turned away {address}: {why}"),)
