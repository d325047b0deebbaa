"""What the launchers of a run say to each other. [pure]

Both sides always tell their whole state, never a change of it: a message that is lost, or comes twice, does
no harm, and after a broken connection the next one says it all.
"""

from ddplaunch.config.parse import MOST_NODES, MOST_RESTARTS, MOST_SECONDS, MOST_WORKERS
from ddplaunch.errors import Problem
from ddplaunch.record import Record
from ddplaunch.report.model import Failure, WorkerRecord
from ddplaunch.report.stacks import Standing

MOST_SIGNALS = 64
UNSEATED = -1  # the node rank of a node that was not given one yet

# --- a node to node 0 -------------------------------------------------------------------------------

# Where a node stands in its attempt.
LOOKING = "looking"  # not ready yet
READY = "ready"  # to start the first attempt it is told to
RUNNING = "running"
DONE = "done"  # its workers have succeeded; others may still be at work
CLEAR = "clear"  # its workers were stopped, and nothing of theirs is left
LEFT = "left"  # it has heard how the run ended
STAGES = frozenset({LOOKING, READY, RUNNING, DONE, CLEAR, LEFT})

# Why an attempt ends, or never begins.
FAILED = "failed"
SIGNAL = "signal"
TIMEOUT = "timeout"
PROBLEM = "problem"
STALLED = "stalled"  # only the whole run can be
LOST = "lost"  # only others can tell
JOINED = "joined"  # another node wants in: only node 0 can tell
KINDS = frozenset({FAILED, SIGNAL, TIMEOUT, PROBLEM})  # what a node can say of itself


class Hello(Record):
    """Who a node is, and what it takes the run to be."""

    host: str
    purpose: str  # "launch" or "check"
    nnodes: int
    nproc: int
    master_port: int
    max_restarts: int
    run_name: str  # --rdzv-id, or empty
    script: str
    script_digest: str  # of its bytes; empty where it is none of ours to read
    arguments_digest: str
    torch: str  # versions; empty where unknown
    python: str
    ddplaunch: str
    grace_seconds: float
    stall_seconds: float  # 0: off
    join_seconds: float  # how much longer it would wait for the others
    min_nnodes: int = 0  # a run that may grow and shrink goes on with so many; 0: all of them are needed
    gives_ranks: bool = False  # node ranks are given out by the run
    role: str = "default"  # of its workers
    machine: str = ""  # tells machines apart, and containers, whatever they are called


class Ending(Record):
    """Why this node's attempt ends."""

    kind: str
    age: float  # seconds before the message was sent
    rank: int = -1
    returncode: int = 0
    signum: int = 0
    problems: tuple[Problem, ...] = ()


class Account(Record):
    """How an attempt went on a node."""

    workers: tuple[WorkerRecord, ...]
    seconds: float
    failure: Failure | None
    standings: tuple[Standing, ...]
    is_clear: bool  # nothing is left of it


class Status(Record):
    """A node's whole state. `key` is its secret, and `number` grows: nobody else can speak for it later."""

    node: int
    key: str
    number: int
    hello: Hello
    stage: str
    run_id: str = ""  # of the run it takes part in, once it knows
    attempt: int = 0
    ending: Ending | None = None
    interrupted: int = 0  # the signal that asked for the end of the run, whatever ends the attempt
    is_silent: bool = False  # no progress for --stall-timeout
    wants_kill: bool = False  # somebody pressed Ctrl-C twice
    account: Account | None = None
    round_trip: float | None = None  # seconds to node 0 and back, when it was measured


def is_sane(status: Status) -> bool:
    """Whether a launcher could have said this; anybody may write to the port."""
    hello, ending = status.hello, status.ending
    seconds = (hello.grace_seconds, hello.stall_seconds, hello.join_seconds, status.round_trip or 0.0)
    return (
        status.stage in STAGES
        and (UNSEATED if hello.gives_ranks else 0) <= status.node < hello.nnodes <= MOST_NODES
        and 0 <= hello.min_nnodes <= hello.nnodes
        and 1 <= hello.nproc <= MOST_WORKERS
        and 0 <= status.attempt <= MOST_RESTARTS
        and 0 <= hello.max_restarts <= MOST_RESTARTS
        and (0 if hello.gives_ranks else 1) <= hello.master_port < 1 << 16
        and 0 <= status.interrupted <= MOST_SIGNALS
        and all(0 <= each <= MOST_SECONDS for each in seconds)
        and (ending is None or _is_sane_ending(ending))
    )


def _is_sane_ending(ending: Ending) -> bool:
    has_problems = bool(ending.problems) and all(1 <= one.exit_code <= 255 for one in ending.problems)
    return (
        ending.kind in KINDS
        and 0 <= ending.age <= MOST_SECONDS
        and 0 <= ending.signum <= MOST_SIGNALS
        and -MOST_SIGNALS <= ending.returncode <= 255
        and has_problems is (ending.kind == PROBLEM)
        and (ending.kind != SIGNAL or ending.signum > 0)
        and (ending.kind != FAILED or (ending.rank >= 0 and ending.returncode != 0))
    )


# --- node 0 to every node ---------------------------------------------------------------------------

WAIT = "wait"
START = "start"
STOP = "stop"
LEAVE = "leave"
LATER = "later"  # the run that ends here is not the one it has come for


def name_place(node: int, host: str) -> str:
    """`node 2 (n2)`, or just its host while it has no node rank."""
    return host if node == UNSEATED else f"node {node} ({host})"


class Cause(Record):
    """What stops an attempt everywhere."""

    kind: str
    text: str
    signum: int


class Seen(Record):
    """A node as node 0 sees it."""

    node: int
    host: str
    round_trip: float | None = None


class Verdict(Record):
    """How an attempt, or the run, ended: the same words on every node."""

    outcome: str
    exit_code: int
    reason: str
    failure: Failure | None = None
    standings: tuple[Standing, ...] = ()
    problems: tuple[Problem, ...] = ()
    hint: str = ""


class Orders(Record):
    """What every node is to do now; a higher number replaces a lower one."""

    number: int
    stage: str
    run_id: str
    attempt: int = 0
    nprocs: tuple[int, ...] = ()
    waiting: str = ""  # for whom, in words
    cause: Cause | None = None
    kills: bool = False  # no more grace
    verdict: Verdict | None = None  # of the attempt before, or of the run
    pause_seconds: float = 0.0  # before the next attempt
    warnings: tuple[str, ...] = ()
    seen: tuple[Seen, ...] = ()  # after a check
    seat: int = UNSEATED  # for the one node that this is sent to: its place in the run
    seats: tuple[int, ...] = ()  # the nodes of this attempt, in the order of their ranks
    roles: tuple[str, ...] = ()  # theirs, if they differ
    restarts: int = 0  # after failures; nodes that come and go are not counted
    master_port: int = 0  # that node 0 has picked; 0: everybody was told one
