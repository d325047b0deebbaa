"""The nodes of a run as values: who they are, what they said last, what they were told. [pure]"""

from collections.abc import Mapping
from enum import Enum
from signal import SIGTERM

from ddplaunch.nodes.events import Action, Heard, SendAll
from ddplaunch.nodes.messages import (
    CLEAR,
    LEAVE,
    LOST,
    READY,
    SIGNAL,
    START,
    UNSEATED,
    WAIT,
    Account,
    Orders,
    Status,
    Verdict,
    name_place,
)
from ddplaunch.nodes.verdicts import End
from ddplaunch.record import Record
from ddplaunch.supervise.restart import RestartPolicy, plan_restart

REMIND_SECONDS = 5.0  # between two lines about who is missing
LATE_SECONDS = (
    3.0  # for nodes that have not come yet to hear why they need not, where it is not their absence
)


STOP_SECONDS = 7.0  # beyond the grace: SIGKILL, the sweep, the last words


class Phase(Enum):
    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    LEAVING = "leaving"
    OVER = "over"


class Rules(Record):
    """What node 0 was told about the run."""

    run_id: str
    nnodes: int
    patience_seconds: float  # with a node whose connection broke
    heartbeat_seconds: float
    stall_seconds: float
    policy: RestartPolicy
    gives_ranks: bool = False  # to nodes that have none
    min_nnodes: int = 0  # 0: all of them are needed
    last_call_seconds: float = 0.0  # for more nodes than needed, or one that came to a running attempt
    master_port: int = 0  # where workers meet, if only node 0 knows; 0: everybody does

    @property
    def is_elastic(self) -> bool:
        return self.min_nnodes > 0

    @property
    def least(self) -> int:
        return self.min_nnodes or self.nnodes


class Member(Record):
    """A node of the run: what it said last, over which connection."""

    status: Status
    peer: bytes
    rank: int  # its node rank; UNSEATED before the run has given it one
    since: int = 0  # the first attempt it takes part in
    came: float = 0.0
    end: End | None = None  # why its attempt ends, by node 0's clock
    down_since: float | None = None

    @property
    def is_ready(self) -> bool:
        """To begin the next attempt."""
        return self.down_since is None and self.status.stage in (READY, CLEAR)

    @property
    def waits_until(self) -> float:
        """For a run that does not begin."""
        return self.came + self.status.hello.join_seconds

    @property
    def name(self) -> str:
        return name_place(self.rank, self.status.hello.host)


class State(Record):
    rules: Rules
    members: Mapping[int, Member]
    orders: Orders
    gather_until: float
    remind_at: float
    phase: Phase = Phase.GATHERING
    attempt: int = 0
    restarts: int = 0  # how many of the attempts followed a failure
    last_call_at: float = 0.0  # when to start without those that could still come
    join_at: float = 0.0  # when to start again with those that have come since
    started_at: float = 0.0  # of the attempt
    start_at: float = 0.0  # not before
    stop_until: float = 0.0
    leave_until: float = 0.0  # whoever has not heard of the end by then is lost
    stay_until: float = 0.0  # for latecomers
    noticed: tuple[End, ...] = ()  # of this attempt, and of no present member: lost nodes, a stall
    turned_away: tuple[str, ...] = ()
    accounts: Mapping[int, Mapping[int, Account]] = {}  # by attempt and place; of this one and the last
    was_short: bool = False  # of nodes, since the last attempt
    queue: tuple[Heard, ...] = ()  # nodes that wait for a place, as they first came

    @property
    def deadline(self) -> float | None:
        """When to look again even if nothing happens."""
        if self.phase is Phase.OVER:
            return None
        down = [member.down_since for member in self.members.values() if member.down_since is not None]
        times = [since + self.rules.patience_seconds for since in down]
        if self.phase is not Phase.LEAVING:
            times += [one.at + one.status.hello.join_seconds for one in self.queue]
        if self.phase is Phase.GATHERING:
            times += [self.gather_until, self.remind_at]
            if self.rules.is_elastic and not self.attempt and self.missing:
                times += [member.waits_until for node, member in self.members.items() if node != 0]
            times += [self.start_at] if self.start_at and not self.missing else []
            if self.last_call_at and all(member.is_ready for member in self.members.values()):
                times.append(self.last_call_at)
        elif self.phase is Phase.RUNNING:
            times += [self.join_at] if self.join_at else []
        elif self.phase is Phase.STOPPING:
            times += [self.remind_at, self.stop_until]
        elif self.phase is Phase.LEAVING:
            times += [self.leave_until, *([self.stay_until] if self.stay_until else [])]
        return min(times, default=None)

    @property
    def missing(self) -> list[int]:
        """Places that have to be taken before an attempt can start."""
        free = [node for node in range(self.rules.nnodes) if node not in self.members]
        return free[: max(0, self.rules.least - len(self.members))]

    @property
    def participants(self) -> list[Member]:
        """Those whose workers this attempt is about; a node that came back waits for the next one."""
        return [member for member in self.members.values() if member.since <= self.attempt]

    @property
    def ends(self) -> list[End]:
        """Every reason to end this attempt."""
        told = [member.end for member in self.participants if member.end is not None]
        return [end for end in told if end.attempt == self.attempt] + list(self.noticed)

    @property
    def may_restart(self) -> bool:
        return plan_restart(self.rules.policy, True, self.restarts) is not None


def begin(rules: Rules, at: float, join_seconds: float) -> State:
    """Nobody is here yet, not even node 0."""
    orders = Orders(0, WAIT, rules.run_id, master_port=rules.master_port)
    return State(rules, {}, orders, at + join_seconds, at + REMIND_SECONDS / 2)  # before anybody says it


def first_rank(rules: Rules, node: int) -> int:
    """The node rank of whoever comes to this place, as far as it is known then."""
    return UNSEATED if rules.gives_ranks and node != 0 else node


def orders_for(state: State, member: Member) -> Orders:
    """A node that came in the middle of an attempt waits for the next one."""
    if state.orders.stage != START or member.since <= state.attempt:
        return state.orders
    return state.orders._replace(stage=WAIT, waiting="waiting to be taken in: the run is at work")


def refusal(state: State, verdict: Verdict) -> Orders:
    """For one node alone."""
    return state.orders._replace(stage=LEAVE, verdict=verdict, number=state.orders.number + 1)


def with_member(state: State, member: Member) -> State:
    """It is as it says; how its attempt went is kept, also when it has begun another one, or left."""
    status = member.status
    state = state._replace(members={**state.members, status.node: member})
    if status.account is None:
        return state
    accounts = {attempt: told for attempt, told in state.accounts.items() if attempt >= status.attempt - 1}
    accounts[status.attempt] = {**accounts.get(status.attempt, {}), status.node: status.account}
    return state._replace(accounts=accounts)


def lose(state: State, member: Member, since: float) -> State:
    """While a run forms, a lost node is just missing again. What it had said before stands."""
    members = {node: other for node, other in state.members.items() if node != member.status.node}
    state = state._replace(members=members)
    is_forming = state.phase is Phase.GATHERING and state.attempt == 0
    if is_forming or state.phase is Phase.LEAVING or member.since > state.attempt:
        return state
    end = member.end
    is_departing = state.rules.is_elastic and member.status.interrupted == SIGTERM and member.status.node != 0
    if end is None or end.attempt != state.attempt or (end.kind == SIGNAL and is_departing):
        end = End(LOST, since, state.attempt, member.status.node, member.status.hello.host, member.name)
    return state._replace(noticed=(*state.noticed, end))


def order(state: State, orders: Orders) -> tuple[State, tuple[Action, ...]]:
    """From now on every node is told this. Who takes part, a long list, is said at the start only."""
    if orders.stage != START:
        orders = orders._replace(nprocs=(), seats=(), roles=())
    orders = orders._replace(number=state.orders.number + 1)
    peers = [member.peer for member in state.members.values() if member.down_since is None]
    if orders.stage == LEAVE:
        peers += [one.peer for one in state.queue]
    return state._replace(orders=orders), (SendAll(tuple(peers), orders),)


def leave(
    state: State, at: float, verdict: Verdict, late_seconds: float = 0.0
) -> tuple[State, tuple[Action, ...]]:
    """The run is over: everybody hears why, and latecomers too where that can concern them."""
    state = state._replace(
        phase=Phase.LEAVING,
        leave_until=at + state.rules.heartbeat_seconds,
        stay_until=at + late_seconds if len(state.members) < state.rules.nnodes and late_seconds else 0.0,
    )
    return order(state, state.orders._replace(stage=LEAVE, verdict=verdict, waiting=""))
