"""Nodes for which a run has no place: some wait for one, some are early for the next run. [pure]"""

from ddplaunch.nodes.messages import LATER, LEFT, WAIT, Orders, Status
from ddplaunch.nodes.roster import State


def may_wait(state: State) -> bool:
    """Whether a place may become free: nodes come and go, or one seems to be gone."""
    return state.rules.is_elastic or any(one.down_since is not None for one in state.members.values())


def answer_waiting(state: State) -> Orders:
    waiting = f"waiting for a place: the run has all its {state.rules.nnodes} nodes"
    return state.orders._replace(stage=WAIT, waiting=waiting, verdict=None, cause=None)


def without_waiting(state: State, key: str) -> State:
    return state._replace(queue=tuple(one for one in state.queue if one.status.key != key))


def answer_after_end(state: State, status: Status) -> Orders:
    """How the run ended, for whom it was meant. A launcher that was started for the next one looks again."""
    return state.orders._replace(stage=LATER) if _is_for_the_next(state, status) else state.orders


def _is_for_the_next(state: State, status: Status) -> bool:
    """It has never heard of this run, and this run has somebody in its place, or is evidently another.

    Of a run that did not come about everybody hears why, though, whoever comes.
    """
    if status.run_id or status.stage == LEFT:
        return False
    first = state.members.get(0)
    ours, theirs = None if first is None else first.status.hello, status.hello
    if ours is not None and (ours.purpose, ours.run_name) != (theirs.purpose, theirs.run_name):
        return True
    has_come_about = state.orders.verdict is not None and not state.orders.verdict.problems
    return has_come_about and _is_taken(state, status)


def _is_taken(state: State, status: Status) -> bool:
    if not state.rules.gives_ranks:
        return status.node in state.members
    hosts = {member.status.hello.host for member in state.members.values()}
    return status.hello.host in hosts or len(state.members) == state.rules.nnodes
