"""What a scheduler says about a run, and what a detector may look at. [pure]"""

import zlib
from collections.abc import Callable, Mapping, Sequence

from ddplaunch.config.line import CommandLine, render_command_line
from ddplaunch.config.parse import MOST_NODES, whole_number
from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.record import Record

LOWEST_PORT, PORTS = 10_000, 20_000  # below Linux's ephemeral range

PLACE = ("nnodes", "node_rank")
TOPOLOGY = (*PLACE, "master_addr", "master_port")


class Surroundings(Record):
    """All that a detector decides by."""

    environ: Mapping[str, str]
    host: str  # this machine's own name
    files: Mapping[str, str]  # what stands in /etc/hosts, and in files that variables name: by variable
    line: CommandLine  # what the user typed, for corrected command lines

    def corrected(self, **changes: object) -> str:
        """The user's own command line with other options; None takes one away."""
        options = {**self.line.options, **changes}
        given = {name: value for name, value in options.items() if value is not None}
        return render_command_line(self.line._replace(options=given))

    def without(self, names: Sequence[str], **changes: object) -> str:
        """The user's own command line without these options."""
        return self.corrected(**{**dict.fromkeys(names), **changes})


class Found(Record):
    """A value, and the variables that say so."""

    value: int | float | str
    source: str


Given = Mapping[str, object]  # what the user said in so many words, by setting


def answers_place(given: Given) -> bool:
    """Who says how many nodes there are and which this is has placed them by other means."""
    return "nnodes" in given and "node_rank" in given


class Allocation(Record):
    """Where a scheduler has put this launcher."""

    scheduler: str
    values: Mapping[str, Found] = {}  # by setting; what it does not say is not in here
    job: str = ""  # its name for the job, where it has one
    gpus: Found | None = None  # how many of this node's cards are ours
    grants_gpus: bool = False  # it would have said so if any were
    first_attempt: int = 0  # the job was started again this many times
    sets: frozenset[str] = frozenset()  # rank variables of its own making, which are not stale
    problems: tuple[Problem, ...] = ()
    is_answered: Callable[[Given], bool] = answers_place  # whether the user's own words settle the problems


class UnclearError(Exception):
    """The variables do not add up: nobody should guess what they mean."""

    def __init__(
        self,
        what: str,
        cause: str = "",
        hint: str = "",
        is_answered: Callable[[Given], bool] = answers_place,
    ) -> None:
        super().__init__(what)
        hint = hint or "--standalone starts a run of this node alone, whatever the environment says"
        self.problem = Problem(what, cause, hint, EXIT_PREFLIGHT)
        self.is_answered = is_answered


def read_number(environ: Mapping[str, str], name: str, least: int = 0, most: int = 1_000_000) -> int:
    """A variable that must be there, and must be a number."""
    if name not in environ:
        raise UnclearError(f"{name} is not set", _quote_siblings(environ, name))
    try:
        return whole_number(least, most)(environ[name])
    except ValueError as error:
        raise UnclearError(f"{name}={environ[name]!r} makes no sense", str(error)) from None


def read_port(environ: Mapping[str, str], name: str) -> int:
    try:
        return read_number(environ, name, 1, 65535)
    except UnclearError as error:
        error.is_answered = lambda given: "master_port" in given
        raise


def read_text(environ: Mapping[str, str], name: str) -> str:
    if not environ.get(name):
        said = "is empty" if name in environ else "is not set"
        raise UnclearError(f"{name} {said}", _quote_siblings(environ, name))
    return environ[name]


def _quote_siblings(environ: Mapping[str, str], name: str) -> str:
    """What the same scheduler did set."""
    family = name.partition("_")[0] + "_"
    return "and yet " + (quote(environ, *sorted(other for other in environ if other.startswith(family))[:5]))


def check_rank(node_rank: int, nnodes: int, said: str) -> None:
    """`said` quotes the variables."""
    if node_rank >= nnodes:
        raise UnclearError(said, f"with {nnodes} nodes, node ranks are 0 to {nnodes - 1}")
    if nnodes > MOST_NODES:
        raise UnclearError(said, f"expected at most {MOST_NODES} nodes")


def quote(environ: Mapping[str, str], *names: str) -> str:
    """`A=1, B=2`: what a user can look up."""
    return ", ".join(f"{name}={environ[name]}" for name in names if name in environ)


def derive_port(job: str, step: str = "0", restart: str = "0") -> int:
    """The same on every node of a job without talking, and most likely another job's neither."""
    return LOWEST_PORT + zlib.crc32(f"{job}.{step}.{restart}".encode()) % PORTS


def find_own_index(hosts: Sequence[str], host: str, source: str) -> int:
    """Which of the hosts this is; some schedulers write full names, some short ones."""
    if host in hosts:
        return list(hosts).index(host)
    short = [name.partition(".")[0] for name in hosts]
    own = host.partition(".")[0]
    if short.count(own) != 1:
        shown = ", ".join(hosts[:8]) + (f" and {len(hosts) - 8} more" if len(hosts) > 8 else "")
        raise UnclearError(f"this machine, {host}, is not in {source}", f"it names {shown}")
    return short.index(own)
