"""While nodes gather: who is waited for, how long, and with whom a run begins. [pure]"""

from ddplaunch.nodes import verdicts
from ddplaunch.nodes.events import Action
from ddplaunch.nodes.messages import Seen, Verdict
from ddplaunch.nodes.roster import State
from ddplaunch.nodes.seats import assign_ranks, send_off


def call_last(state: State, at: float) -> State:
    """There are enough nodes, and there could be more: those have a while, unless others wait to go on."""
    if state.missing:
        state = state._replace(was_short=True)
    is_going_on = state.attempt > 0 and not state.was_short
    if not state.rules.is_elastic or is_going_on or state.missing:
        return state._replace(last_call_at=0.0)
    return state if state.last_call_at else state._replace(last_call_at=at + state.rules.last_call_seconds)


def is_complete(state: State, at: float) -> bool:
    if state.missing or not all(member.is_ready for member in state.members.values()):
        return False
    is_last_call_over = at >= min(state.last_call_at, state.gather_until)  # --join-timeout may be shorter
    return len(state.members) == state.rules.nnodes or is_last_call_over


def with_seen(state: State) -> State:
    statuses = {member.rank: member.status for member in state.members.values()}
    if state.rules.gives_ranks:
        statuses = dict(enumerate(state.members[node].status for node in assign_ranks(state.members)))
    seen = tuple(
        Seen(rank, status.hello.host, status.round_trip) for rank, status in sorted(statuses.items())
    )
    return state._replace(orders=state.orders._replace(seen=seen))


def describe_waiting(state: State) -> str:
    ready = {node: one.status.hello.host for node, one in state.members.items() if one.is_ready}
    if state.rules.gives_ranks:
        return verdicts.describe_gathering(list(ready.values()), state.rules.least, state.rules.nnodes)
    absent = [node for node in range(state.rules.nnodes) if node not in ready]
    return verdicts.describe_waiting(absent, ready)


def describe_absence(state: State) -> Verdict:
    return verdicts.not_all_came(describe_waiting(state), state.noticed, state.turned_away)


def send_off_impatient(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    """Nodes that have waited for an elastic run to begin as long as they were told to; others wait on."""
    if not state.rules.is_elastic or state.attempt or not state.missing:
        return state, ()
    late = [node for node, member in state.members.items() if node != 0 and at >= member.waits_until]
    return send_off(state, dict.fromkeys(late, describe_absence(state)))
