"""Hearing from nodes: from those that belong to the run, from newcomers, from strangers. [pure]"""

from ddplaunch.nodes import verdicts
from ddplaunch.nodes.events import LOCAL, Action, Heard, Misheard, Say, Send
from ddplaunch.nodes.messages import LEFT, SIGNAL, UNSEATED, Orders, name_place
from ddplaunch.nodes.newcomers import Decision, receive_newcomer
from ddplaunch.nodes.roster import (
    LATE_SECONDS,
    STOP_SECONDS,
    Member,
    Phase,
    State,
    first_rank,
    leave,
    lose,
    orders_for,
    refusal,
    with_member,
)
from ddplaunch.nodes.seats import describe_full, dismiss, find_member, find_seat, may_leave
from ddplaunch.nodes.surplus import answer_after_end, answer_waiting, may_wait, without_waiting
from ddplaunch.nodes.verdicts import End

MOST_TURNED_AWAY = 8
MOST_WARNINGS = 8
MOST_WAITING = 1000  # anybody may write to the port


def hear(state: State, event: Heard) -> tuple[State, tuple[Action, ...]]:
    status, member = event.status, find_member(state, event.status)
    if member is not None:
        state, actions = _hear_member(state, _at_seat(event, member.status.node), member)
        return state, _tell_seat(actions, event, member.status.node)
    if state.phase in (Phase.LEAVING, Phase.OVER):
        state = without_waiting(state, status.key)
        return state, (Send(event.peer, answer_after_end(state, status)),)
    if event.peer == LOCAL or (status.node != UNSEATED and not state.rules.gives_ranks):
        return _hear_newcomer(state, event, state.members.get(status.node))
    seat = find_seat(state, status)
    if seat is None:
        return _hear_surplus(state, event)
    state = without_waiting(state, status.key)
    state, actions = _hear_newcomer(state, _at_seat(event, seat), state.members.get(seat))
    return state, _tell_seat(actions, event, seat)


def _at_seat(event: Heard, seat: int) -> Heard:
    return event._replace(status=event.status._replace(node=seat))


def _tell_seat(actions: tuple[Action, ...], event: Heard, seat: int) -> tuple[Action, ...]:
    """The answer to a node that does not know its place says it."""
    if event.status.node == seat:
        return actions
    return tuple(
        Send(action.peer, action.orders._replace(seat=seat))
        if isinstance(action, Send) and action.peer == event.peer
        else action
        for action in actions
    )


def _hear_member(state: State, event: Heard, known: Member) -> tuple[State, tuple[Action, ...]]:
    status, peer = event.status, event.peer
    if status.number <= known.status.number:  # replayed, or overtaken by what it said since
        return state, ()
    if known.down_since is not None and state.phase is Phase.STOPPING:  # only now it hears of the stop
        until = event.at + status.hello.grace_seconds + STOP_SECONDS
        state = state._replace(stop_until=max(state.stop_until, until))
    member = known._replace(status=status, peer=peer, down_since=None, end=_find_end(state, known, event))
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
        end = verdicts.date_ending(status, event.at, known.name) if is_news else end
    has_none = end is None or end.attempt != state.attempt
    if status.interrupted and has_none and state.phase is Phase.RUNNING:
        # It was asked to stop just when the attempt began, and does not begin it.
        where = (status.node, status.hello.host, known.name)
        end = End(SIGNAL, event.at, state.attempt, *where, signum=status.interrupted)
    return end


def _hear_newcomer(state: State, event: Heard, known: Member | None) -> tuple[State, tuple[Action, ...]]:
    status, peer = event.status, event.peer
    if status.stage == LEFT:
        return state, (Send(peer, state.orders),)
    if status.interrupted and state.rules.is_elastic:
        return state, (Send(peer, _dismissal(state, event)),)
    decision = _decide(state, event, known)
    if decision.problems and decision.concerns_all:
        state, actions = leave(state, event.at, verdicts.refuse(decision.problems), LATE_SECONDS)
        return state, (Send(peer, state.orders), *actions)
    if decision.problems:
        return state, (Send(peer, refusal(state, verdicts.refuse(decision.problems))),)
    if known is not None:  # it was started again: the one before is lost
        state = lose(state, known, known.down_since or event.at)
    return _admit(
        state, event, decision, first_rank(state.rules, status.node) if known is None else known.rank
    )


def _decide(state: State, event: Heard, known: Member | None) -> Decision:
    first = state.members.get(0)
    return receive_newcomer(
        event.status,
        first=event.status if first is None else first.status,
        is_local=event.peer == LOCAL,
        run_id=state.rules.run_id,
        rival=known.status if known is not None and known.down_since is None else None,
        is_forming=state.phase is Phase.GATHERING and state.attempt == 0 and not state.rules.is_elastic,
        has_room=state.phase is Phase.GATHERING or state.may_restart or state.rules.is_elastic,
    )


def _dismissal(state: State, event: Heard) -> Orders:
    status = event.status
    place = name_place(first_rank(state.rules, status.node), status.hello.host)
    return refusal(state, verdicts.interrupted(place, status.interrupted))


def _hear_surplus(state: State, event: Heard) -> tuple[State, tuple[Action, ...]]:
    """All places are taken: it waits for one if nodes come and go, or if one seems to be gone."""
    status, peer = event.status, event.peer
    came = next((one.at for one in state.queue if one.status.key == status.key), event.at)
    state = without_waiting(state, status.key)
    if status.stage == LEFT:
        return state, (Send(peer, state.orders),)
    if status.interrupted:
        return state, (Send(peer, _dismissal(state, event)),)
    waits = may_wait(state) and len(state.queue) < MOST_WAITING
    problems = _decide(state, event, None).problems if waits else (describe_full(state),)
    if problems:
        return state, (Send(peer, refusal(state, verdicts.refuse(problems))),)
    state = state._replace(queue=(*state.queue, event._replace(at=came)))
    return state, (Send(peer, answer_waiting(state)),)


def seat_waiting(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    """Nodes that waited for a place: one is free, or there will be none for them."""
    actions: tuple[Action, ...] = ()
    for one in state.queue if state.phase not in (Phase.LEAVING, Phase.OVER) else ():
        if find_seat(state, one.status) is not None:
            state, answers = hear(state, one._replace(at=at))
        elif at >= one.at + one.status.hello.join_seconds or not may_wait(state):
            state = without_waiting(state, one.status.key)
            answers = (Send(one.peer, refusal(state, verdicts.refuse((describe_full(state),)))),)
        else:
            continue
        actions += answers
    return state, actions


def _admit(state: State, event: Heard, decision: Decision, rank: int) -> tuple[State, tuple[Action, ...]]:
    status, at = event.status, event.at
    is_early = state.phase is Phase.GATHERING
    place = name_place(rank, status.hello.host)
    end = verdicts.date_ending(status, at, place) if status.ending is not None and is_early else None
    since = state.attempt if is_early else state.attempt + 1
    member = Member(status, event.peer, rank, since, at, end)
    state = with_member(state, member)
    if is_early and state.attempt == 0 and (event.peer == LOCAL or not state.rules.is_elastic):
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
    state = state._replace(queue=tuple(one for one in state.queue if one.peer != peer))
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
