"""The nodes of a run, as node 0 sees them: step(state, event) -> (state, actions). [pure]

    GATHERING --all are here and agree--> RUNNING --one ends, is lost, or all stall--> STOPPING
        ^  |                                 |                                          |   |
        |  `--time is up, no agreement--.    `-- all are done --.                       |   |
        |                                v                      v                       |   |
        `------- there is another attempt, and all are clear ----------- LEAVING <------'---'

Every member says where it stands; what follows from that is said to all of them as orders.
"""

from ddplaunch.nodes import verdicts
from ddplaunch.nodes.arrivals import hear, mishear, miss, seat_waiting, turn_away
from ddplaunch.nodes.events import LOCAL, Action, Elapsed, Event, Heard, Misheard, TurnedAway, Vanished
from ddplaunch.nodes.gathering import (
    call_last,
    describe_absence,
    describe_waiting,
    is_complete,
    send_off_impatient,
    with_seen,
)
from ddplaunch.nodes.messages import (
    CLEAR,
    DONE,
    FAILED,
    JOINED,
    LEFT,
    LOST,
    PROBLEM,
    SIGNAL,
    STALLED,
    START,
    STOP,
    TIMEOUT,
    WAIT,
    Verdict,
)
from ddplaunch.nodes.roster import (
    LATE_SECONDS,
    REMIND_SECONDS,
    STOP_SECONDS,
    Member,
    Phase,
    State,
    leave,
    lose,
    order,
)
from ddplaunch.nodes.seats import assign_ranks, dismiss, find_departing, find_newcomer
from ddplaunch.nodes.verdicts import End
from ddplaunch.supervise.restart import find_obstacle, plan_restart


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """What an event means for the run; never looks at the clock or at a socket."""
    actions: tuple[Action, ...] = ()
    match event:
        case Heard():
            state, actions = hear(state, event)
        case Misheard():
            return state, mishear(state, event)
        case Vanished(peer=peer, at=at):
            state = miss(state, peer, at)
        case TurnedAway(address=address):
            return turn_away(state, address)
        case Elapsed(at=at):
            state = _lose_silent_members(state, at)
    if state.queue:
        state, answers = seat_waiting(state, event.at)
        actions += answers
    state, further = _advance(state, event.at)
    return state, actions + further


def _lose_silent_members(state: State, at: float) -> State:
    for member in tuple(state.members.values()):
        since = member.down_since
        if since is not None and at >= since + state.rules.patience_seconds:
            state = lose(state, member, since)
    return state


def _advance(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    match state.phase:
        case Phase.GATHERING:
            return _gather(state, at)
        case Phase.RUNNING:
            return _run(state, at)
        case Phase.STOPPING:
            return _stop(state, at)
        case Phase.LEAVING:
            return _wait_for_leavers(state, at), ()
        case Phase.OVER:
            return state, ()


def _gather(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    members = state.members.values()
    for member in members:
        if member.status.interrupted:
            return leave(state, at, verdicts.interrupted(member.name, member.status.interrupted))
        if member.end is not None and member.end.kind in (PROBLEM, TIMEOUT):
            return leave(state, at, verdicts.judge_end(member.end, {}), LATE_SECONDS)
    state, farewells = send_off_impatient(state, at)
    if farewells:
        state, actions = _gather(state, at)
        return state, farewells + actions
    state = call_last(state, at)
    is_all = is_complete(state, at)
    if is_all and all(member.status.hello.purpose == "check" for member in members):
        if all(member.status.round_trip is not None for member in members):
            return leave(with_seen(state), at, Verdict("check", 0, "all nodes see each other"))
    elif is_all and at >= state.start_at:
        return _start(state, at)
    if at >= state.start_at:
        state = state._replace(start_at=0.0)  # from here on only nodes are waited for
    if at >= state.gather_until:
        return leave(with_seen(state), at, describe_absence(state))
    if at >= state.remind_at:
        state = state._replace(remind_at=at + REMIND_SECONDS)
        return order(state, state.orders._replace(waiting=describe_waiting(state)))
    return state, ()


def _start(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    seats = assign_ranks(state.members)
    hellos = [state.members[node].status.hello for node in seats]
    nprocs, roles = tuple(hello.nproc for hello in hellos), tuple(hello.role for hello in hellos)
    members = {node: state.members[node]._replace(rank=rank, end=None) for rank, node in enumerate(seats)}
    state = state._replace(phase=Phase.RUNNING, started_at=at, members=members, noticed=())
    state = state._replace(last_call_at=0.0, was_short=False)
    orders = state.orders._replace(
        stage=START,
        attempt=state.attempt,
        nprocs=nprocs,
        seats=seats,
        roles=roles if len(set(roles)) > 1 else (),
        restarts=state.restarts,
        waiting="",
    )
    return order(state, orders)


def _run(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    first = verdicts.find_first(state.ends, state.rules.heartbeat_seconds)
    if first is not None:
        return _begin_stop(state, at, first)
    newcomer = find_newcomer(state, at)
    if newcomer is None:
        state = state._replace(join_at=0.0)
    elif at >= state.join_at > 0 or len(state.members) == state.rules.nnodes:
        return _begin_stop(state._replace(noticed=(newcomer,), join_at=0.0), at, newcomer)
    elif not state.join_at:  # who else comes now is taken in by the same restart
        state = state._replace(join_at=at + state.rules.last_call_seconds)
    stages = [(member.status, member.status.attempt == state.attempt) for member in state.participants]
    if all(is_here and status.stage == DONE for status, is_here in stages):
        return leave(state, at, verdicts.SUCCESS)
    if all(is_here and (status.is_silent or status.stage == DONE) for status, is_here in stages):
        stalled = End(STALLED, at, state.attempt, 0, "", "")
        return _begin_stop(state._replace(noticed=(stalled,)), at, stalled)
    return state, ()


def _begin_stop(state: State, at: float, first: End) -> tuple[State, tuple[Action, ...]]:
    grace = max((member.status.hello.grace_seconds for member in state.members.values()), default=0.0)
    state = state._replace(
        phase=Phase.STOPPING, stop_until=at + grace + STOP_SECONDS, remind_at=at + REMIND_SECONDS / 2
    )
    cause = verdicts.describe_cause(first)
    orders = state.orders._replace(stage=STOP, cause=cause, verdict=None)
    state, actions = order(state, orders)
    state, further = _stop(state, at)
    return state, actions + further


def _stop(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    """All clear, or out of patience: whoever is still not clear by now never will be."""
    statuses = [member.status for member in state.members.values()]
    busy = [member for member in state.participants if not _is_clear(state, member)]
    if any(member.down_since is not None for member in busy) or (busy and at < state.stop_until):
        return _wait_for_stop(state, at, busy)
    first = verdicts.find_first(state.ends, state.rules.heartbeat_seconds)
    assert first is not None
    accounts = {status.node: status.account for status in statuses if status.account is not None}
    rules = state.rules
    verdict = verdicts.judge_end(first, accounts, rules.heartbeat_seconds, rules.stall_seconds)
    departing = find_departing(state)
    comes_and_goes = rules.is_elastic and (
        first.kind in (LOST, JOINED) or (first.kind == SIGNAL and bool(departing))
    )
    pause = plan_restart(rules.policy, first.kind in (FAILED, STALLED, LOST), state.restarts)
    pause = 0.0 if comes_and_goes else pause
    if pause is None:
        return leave(state, at, verdict)
    asked = next((member for member in state.members.values() if member.status.interrupted), None)
    if asked is not None and not departing:
        return leave(state, at, verdicts.interrupted(asked.name, asked.status.interrupted))
    are_clear = not busy and all(account.is_clear for account in accounts.values())
    uptime = float("inf") if comes_and_goes else max(0.0, first.at - state.started_at)
    obstacle = find_obstacle(rules.policy, uptime, are_clear)
    if obstacle:
        verdict = verdicts.not_cleared(first) if first.kind == JOINED else verdict
        return leave(state, at, verdict._replace(hint=f"no restart: {obstacle}"))
    state = state._replace(restarts=state.restarts + (not comes_and_goes))
    state, farewells = dismiss(state, departing)
    state, actions = _gather_again(state, at, verdict, pause)
    return state, farewells + actions


def _is_clear(state: State, member: Member) -> bool:
    return member.status.attempt == state.attempt and member.status.stage in (CLEAR, LEFT)


def _wait_for_stop(state: State, at: float, busy: list[Member]) -> tuple[State, tuple[Action, ...]]:
    """A node that vanished may be the cause of it all: its fate is waited for."""
    if any(member.status.wants_kill for member in state.members.values()) and not state.orders.kills:
        return order(state, state.orders._replace(kills=True))
    if at >= state.stop_until:
        state = state._replace(stop_until=at + STOP_SECONDS)
    if at < state.remind_at:
        return state, ()
    state = state._replace(remind_at=at + REMIND_SECONDS)
    return order(state, state.orders._replace(waiting=verdicts.describe_busy(_split_by_contact(busy))))


def _split_by_contact(busy: list[Member]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for member in busy:
        doing = "stop" if member.down_since is None else "come back"
        told.setdefault(doing, []).append(member.name)
    return told


def _gather_again(
    state: State, at: float, verdict: Verdict, pause: float
) -> tuple[State, tuple[Action, ...]]:
    join_seconds = max(member.status.hello.join_seconds for member in state.members.values())
    state = state._replace(
        phase=Phase.GATHERING,
        attempt=state.attempt + 1,
        start_at=at + pause,
        gather_until=at + pause + join_seconds,
        remind_at=at + (REMIND_SECONDS if not state.missing else 0.0),
    )
    orders = state.orders._replace(
        stage=WAIT,
        attempt=state.attempt,
        cause=None,
        kills=False,
        verdict=verdict,
        pause_seconds=pause,
        restarts=state.restarts,
        waiting="",
    )
    state, actions = order(state, orders)
    state, answers = seat_waiting(state, at)  # a place may have become free
    state, further = _gather(state, at)
    return state, actions + answers + further


def _wait_for_leavers(state: State, at: float) -> State:
    """A node whose connection is broken just now has a while to come back and hear it."""
    if at >= state.stay_until:
        state = state._replace(stay_until=0.0)
    others = [member for member in state.members.values() if member.peer != LOCAL]
    away = [member for member in others if member.status.stage != LEFT]
    if any(member.down_since is not None for member in away):
        return state._replace(leave_until=at + state.rules.patience_seconds)
    if (away or state.queue) and at < state.leave_until:
        return state
    return state if state.stay_until else state._replace(phase=Phase.OVER)
