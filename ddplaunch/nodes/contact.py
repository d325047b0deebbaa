"""A node's contact to node 0: found, lost, found again, or given up. [pure]

LOOKING --somebody answers--> CALLING --hands are shaken--> TALKING <--> CUT --too long--> GONE
   \\                            \\                                        /
    `--time is up, no use---------`-- it is no ddplaunch --> GONE <-------'
"""

from enum import Enum

from ddplaunch.errors import EXIT_JOIN, Problem
from ddplaunch.record import Record

LOOK_AGAIN_SECONDS = 0.3
LOOK_SLOWLY_SECONDS = 2.0
# Somebody who has not made sense for so long is no ddplaunch. Silence may be a machine that stands still for
# a moment; after a handshake, which needs no Python, node 0 may only be slow.
STRANGER_SECONDS, SILENT_SECONDS, SLOW_SECONDS = 4.0, 7.0, 30.0
# With a token on one side only no try can succeed; a few more let node 0 see who it is that tries.
TOKEN_SECONDS, CALL_AGAIN_SECONDS = 2.0, 0.2
# Nobody listens where node 0 did: its launcher is gone. Not at the first try, which may have hit a moment.
REFUSED_SECONDS = 2.0


class Phase(Enum):
    LOOKING = "looking"
    CALLING = "calling"
    TALKING = "talking"
    CUT = "cut"
    GONE = "gone"


class Terms(Record):
    """Whom to find, and for how long."""

    host: str
    port: int
    has_token: bool
    patience_seconds: float
    heartbeat_seconds: float

    @property
    def place(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


# --- events -----------------------------------------------------------------------------------------


class Scouted(Record):
    """A look at node 0's address: the address that answered, or what was tried."""

    reached: str
    error: str
    is_refused: bool
    at: float


class Shaken(Record):
    at: float


class NotShaken(Record):
    speaks_otherwise: bool
    is_silence: bool
    at: float


class Broken(Record):
    at: float


class Understood(Record):
    """Orders came: node 0 is what we took it for."""

    at: float


class Elapsed(Record):
    at: float


class Postponed(Record):
    """Somebody is there who takes leave of the run before: ours is not there yet."""

    at: float


Event = Scouted | Shaken | NotShaken | Broken | Understood | Postponed | Elapsed

# --- actions ----------------------------------------------------------------------------------------


class SendScout(Record):
    """Look whether somebody listens there."""


class Call(Record):
    address: str


class HangUp(Record):
    pass


class SayAgain(Record):
    """Over a new connection: everything."""


class GiveUp(Record):
    """It never comes to a contact."""

    problem: Problem


class Miss(Record):
    """Node 0 is lost."""

    reason: str


Action = SendScout | Call | HangUp | SayAgain | GiveUp | Miss


class State(Record):
    terms: Terms
    join_until: float
    phase: Phase = Phase.LOOKING
    look_at: float | None = None  # when to send the next scout; None: one is underway, or none is needed
    looks: int = 0
    trouble: str = ""  # what was tried last, in words
    stranger_at: float | None = None  # when whoever does not make sense until then is no ddplaunch
    is_token_amiss: bool = False
    is_shaken: bool = False
    is_understood: bool = False
    cut_at: float = 0.0
    refused_since: float | None = None

    @property
    def deadline(self) -> float | None:
        if self.phase is Phase.GONE:
            return None
        times = [self.look_at]
        if self.phase in (Phase.LOOKING, Phase.CALLING):
            times.append(self.join_until)
        if self.phase is Phase.CUT:
            times.append(self.cut_at + self.terms.patience_seconds)
        if self.stranger_at is not None:
            times.append(self.stranger_at)
        return min((at for at in times if at is not None), default=None)


def begin(terms: Terms, at: float, join_seconds: float) -> State:
    return State(terms, at + join_seconds, look_at=at)


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    if state.phase is Phase.GONE:
        return state, ()
    match event:
        case Scouted():
            return _scouted(state, event)
        case Shaken(at=at):
            return _shaken(state, at)
        case NotShaken():
            return _not_shaken(state, event)
        case Broken(at=at) if state.phase is Phase.TALKING and state.is_understood:
            return state._replace(phase=Phase.CUT, cut_at=at, look_at=at, looks=0), ()
        case Broken():  # before the first word: it may be no ddplaunch
            return state._replace(phase=Phase.CALLING), ()
        case Understood():
            return state._replace(is_understood=True, stranger_at=None, trouble=""), ()
        case Postponed(at=at):
            return _postponed(state, at)
        case Elapsed(at=at):
            return _elapsed(state, at)


def _scouted(state: State, event: Scouted) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(looks=state.looks + 1)
    pause = LOOK_AGAIN_SECONDS if state.looks < 10 else LOOK_SLOWLY_SECONDS
    if state.phase is Phase.CUT:
        since = (state.refused_since or event.at) if event.is_refused else None
        state = state._replace(refused_since=since, look_at=event.at + pause)
        if since is not None and event.at - since >= REFUSED_SECONDS:
            return _miss(state, "nobody listens there any more: its launcher is gone")
        return state, ()
    if state.phase is not Phase.LOOKING:
        return state._replace(look_at=None), ()
    if event.reached:
        return state._replace(phase=Phase.CALLING, trouble="", look_at=None), (Call(event.reached),)
    return state._replace(trouble=event.error, look_at=event.at + pause), ()


def _shaken(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    until = None
    if not state.is_understood:
        until = state.stranger_at if state.is_shaken else at + SLOW_SECONDS
    state = state._replace(phase=Phase.TALKING, is_shaken=True, stranger_at=until)
    return state._replace(refused_since=None, look_at=None), (SayAgain(),)


def _not_shaken(state: State, event: NotShaken) -> tuple[State, tuple[Action, ...]]:
    if state.is_understood:  # it was a ddplaunch before: the network plays tricks
        return state, ()
    if event.speaks_otherwise:
        until = state.stranger_at or event.at + TOKEN_SECONDS
        again_at = event.at + CALL_AGAIN_SECONDS
        return state._replace(
            phase=Phase.LOOKING, look_at=again_at, stranger_at=until, is_token_amiss=True
        ), ()
    if event.is_silence:  # a machine that is very slow looks the same
        trouble, patience = "it answers, and then says nothing", SILENT_SECONDS
    else:
        trouble, patience = "it answers, and then hangs up", STRANGER_SECONDS
    return state._replace(trouble=trouble, stranger_at=state.stranger_at or event.at + patience), ()


def _postponed(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(phase=Phase.LOOKING, look_at=at + LOOK_AGAIN_SECONDS, stranger_at=None)
    return state._replace(is_shaken=False, trouble="the run before is still ending there"), (HangUp(),)


def _elapsed(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    if state.stranger_at is not None and at >= state.stranger_at:
        describe = _describe_token if state.is_token_amiss else _describe_stranger
        return _give_up(state, describe(state.terms))
    if state.phase is Phase.CUT and at >= state.cut_at + state.terms.patience_seconds:
        return _miss(state, f"no sign of life within --heartbeat-timeout {state.terms.heartbeat_seconds:g} s")
    if state.phase in (Phase.LOOKING, Phase.CALLING) and at >= state.join_until:
        return _give_up(state, _describe_absence(state))
    if state.look_at is not None and at >= state.look_at:
        return state._replace(look_at=None), (SendScout(),)
    return state, ()


def _give_up(state: State, problem: Problem) -> tuple[State, tuple[Action, ...]]:
    return state._replace(phase=Phase.GONE), (GiveUp(problem),)


def _miss(state: State, reason: str) -> tuple[State, tuple[Action, ...]]:
    return state._replace(phase=Phase.GONE), (Miss(reason),)


def describe_waiting(state: State) -> str:
    """`waiting for node 0 at n0:29501 (10.77.0.10: connection refused)`."""
    trouble = f" ({state.trouble})" if state.trouble else ""
    return f"waiting for node 0 at {state.terms.place}{trouble}"


def _describe_token(terms: Terms) -> Problem:
    ours = "this node has a DDPLAUNCH_TOKEN, and node 0 has none"
    theirs = "node 0 has a DDPLAUNCH_TOKEN, and this node has none"
    return Problem(
        f"node 0 at {terms.place} does not talk to this node",
        ours if terms.has_token else theirs,
        "the same DDPLAUNCH_TOKEN on every node, or none on any",
        EXIT_JOIN,
    )


def _describe_stranger(terms: Terms) -> Problem:
    token = "another DDPLAUNCH_TOKEN, or none" if terms.has_token else "a DDPLAUNCH_TOKEN"
    return Problem(
        f"{terms.place} answers, but not as node 0 of this run",
        f"it is no ddplaunch, or has {token}",
        "is --master-addr node 0, and --control-port (master port + 1) a port that only ddplaunch uses?",
        EXIT_JOIN,
    )


def _describe_absence(state: State) -> Problem:
    tries = f"{state.looks} {'try' if state.looks == 1 else 'tries'}"
    return Problem(
        "the nodes did not come together within --join-timeout",
        f"{describe_waiting(state)}, {tries}",
        "is ddplaunch running on node 0, is --master-addr its address, and is the port open?",
        EXIT_JOIN,
    )
