"""torchrun's own options, and what they are called here. The rest of the program does not know them. [pure]

Options that both have under one name (--nnodes, --max-restarts, ...) stand in the table of settings.
"""

import signal
from collections.abc import Callable, Mapping

from ddplaunch.config import parse
from ddplaunch.config.setting import Setting
from ddplaunch.config.streams import Streams, parse_masks
from ddplaunch.errors import Problem
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

GROUP = "From torchrun"
C10D_PORT = 29400  # torchrun's, where an endpoint names none

# What torchrun reads from the environment beside PET_<OPTION>.
VARIABLES = ("PYTHON_EXEC", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")


class Translation(Record):
    """Values of ours, each with what the user said, and what is refused."""

    values: "Mapping[str, tuple[Any, str]]"
    problems: tuple[Problem, ...]
    firm: frozenset[str]  # values that hold against options of our own


def _words(value: str) -> tuple[str, ...]:
    """Comma-separated; two commas are one that belongs to a word."""
    parts = value.replace(",,", "\0").split(",")
    return tuple(part.replace("\0", ",") for part in parts if part)


def _signals(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    unknown = [name for name in names if name not in signal.Signals.__members__]
    if unknown or not names:
        raise ValueError(f"expected names of signals such as SIGTERM,SIGUSR1 (not {', '.join(unknown)})")
    return names


def _endpoint(value: str) -> tuple[str, int | None]:
    """`host`, `host:29400`, `[::1]:29400`."""
    host, colon, port = value.rpartition(":")
    if (
        not colon
        or (value.startswith("[") and value.endswith("]"))
        or (value.count(":") > 1 and "[" not in value)
    ):
        host, port = value, ""
    number = parse.whole_number(0, 65535)(port) if port else None
    return parse.text(host.strip("[]")), number


def _pairs(value: str) -> tuple[tuple[str, str], ...]:
    parts = [part.partition("=") for part in value.split(",") if part.strip()]
    return parse.assignments(tuple(f"{key.strip()}{equals}{given.strip()}" for key, equals, given in parts))


def _setting(
    name: str,
    read: Callable[[str], object],
    help: str,
    metavar: str = "",
    short: str = "",
    group: str = GROUP,
) -> Setting:
    default = False if not metavar else None
    return Setting(name, group, read, default, help, metavar, short, torchrun=True)


_NODES = "Many nodes"

# What of --rdzv-conf counts: how it is read, and its name here.
_CONF: "Mapping[str, tuple[Callable[[str], Any], str]]" = {
    "timeout": (parse.some_seconds, ""),  # of static runs only
    "join_timeout": (parse.some_seconds, "join_timeout"),
    "last_call_timeout": (parse.seconds, "last_call"),
    "is_host": (parse.flag, "is_host"),
    "keep_alive_interval": (parse.some_seconds, ""),  # together they are --heartbeat-timeout
    "keep_alive_max_attempt": (parse.whole_number(1), ""),
}

TORCHRUN: tuple[Setting, ...] = (
    _setting("rdzv_backend", parse.text, "static: --node-rank says which node this is; c10d: the run.",
             "static|c10d", group=_NODES),
    _setting("rdzv_endpoint", _endpoint, "Where the nodes meet: the master's address.",
             "HOST[:PORT]", group=_NODES),
    _setting("rdzv_conf", _pairs, "timeout, last_call_timeout, keep_alive_* and is_host count, other keys "
             "are accepted.", "K=V,...", group=_NODES),
    _setting("shutdown_timeout", parse.seconds, "As --grace.", "S"),
    _setting("redirects", parse_masks, "Streams that go to files only: 1 stdout, 2 stderr, 3 both; or by "
             "local rank, 0:1,1:2. Files: LOG_DIR/ID_.../attempt_0/0/stdout.log.", "N|MAP", "-r"),
    _setting("tee", parse_masks, "The same, and on the console as well.", "N|MAP", "-t"),
    _setting("local_ranks_filter", parse.ranks, "Only these local ranks are shown.", "LIST"),
    _setting("duplicate_stdout_filters", _words, "Copy lines with one of these words to filtered_stdout.log.",
             "WORDS"),
    _setting("duplicate_stderr_filters", _words, "The same for stderr.", "WORDS"),
    _setting("role", parse.text, "ROLE_NAME of the workers.", "NAME"),
    _setting("virtual_local_rank", parse.flag, "As --isolate-gpus, and LOCAL_RANK is 0 everywhere."),
    _setting("run_path", parse.flag, "Accepted: a script is run by its path anyway."),
    _setting("local_addr", parse.text, "Accepted: nodes find the master, not each other.", "HOST"),
    _setting("monitor_interval", float, "Accepted: nothing is polled.", "S"),
    _setting("start_method", parse.one_of("spawn", "fork", "forkserver"), "Accepted: workers are programs.",
             "METHOD"),
    _setting("signals_to_handle", _signals, "Accepted: all of them are passed on.", "LIST"),
    _setting("event_log_handler", parse.text, "Only null; see --summary-json.", "NAME"),
    _setting("logs_specs", parse.text, "Only default; see --log-dir and --tee.", "NAME"),
)  # fmt: skip

NAMES = frozenset(setting.name for setting in TORCHRUN)


def translate(
    theirs: "Mapping[str, Any]",
    sources: Mapping[str, str],
    environ: Mapping[str, str],
    ours: "Mapping[str, Any]",
) -> Translation:
    """`theirs` are values of TORCHRUN that somebody gave, `sources` say where; `ours` are known already."""
    values: dict[str, tuple[Any, str]] = {}
    problems = [*_check_refused(theirs, sources)]

    def take(name: str, value: object, source: str) -> None:
        values[name] = (value, source)

    problems += _translate_variables(environ, theirs, ours, take)
    if "shutdown_timeout" in theirs:
        take("grace", theirs["shutdown_timeout"], sources["shutdown_timeout"])
    if "role" in theirs:
        take("role", theirs["role"], sources["role"])
    if "virtual_local_rank" in theirs:
        take("isolate_gpus", True, sources["virtual_local_rank"])
    overrides = _find_overrides(theirs)
    if overrides:
        take("overrides", overrides, "torchrun's options")
    streams = _find_streams(theirs)
    if streams is not None:
        take("streams", streams, "torchrun's options")
    problems += _translate_rendezvous(theirs, sources, ours, take)
    return Translation(values, tuple(problems), _find_firm(theirs, ours))


def _find_firm(theirs: "Mapping[str, Any]", ours: "Mapping[str, Any]") -> frozenset[str]:
    """The endpoint is where nodes meet, whatever is said beside it; c10d does not ask for node ranks."""
    firm = {"node_rank"} if theirs.get("rdzv_backend") == "c10d" else set[str]()
    if "rdzv_endpoint" in theirs:
        is_same_port = ours["master_port"] == (theirs["rdzv_endpoint"][1] or C10D_PORT)
        firm |= {"master_addr", "master_port"} if is_same_port else {"master_addr"}
    return frozenset(firm)


def _find_overrides(theirs: "Mapping[str, Any]") -> tuple[tuple[str, str], ...]:
    """Variables of workers that are not what we would make them."""
    overrides = []
    if "virtual_local_rank" in theirs:
        overrides.append(("LOCAL_RANK", "0"))
    if "signals_to_handle" in theirs:
        overrides.append(("TORCHELASTIC_SIGNALS_TO_HANDLE", ",".join(theirs["signals_to_handle"])))
    return tuple(overrides)


def _find_streams(theirs: "Mapping[str, Any]") -> Streams | None:
    names = ("redirects", "tee", "local_ranks_filter", "duplicate_stdout_filters", "duplicate_stderr_filters")
    if not any(name in theirs for name in names):
        return None
    return Streams(
        redirected=theirs.get("redirects", ()),
        teed=theirs.get("tee", ()),
        shown_ranks=theirs.get("local_ranks_filter"),
        filters=(theirs.get("duplicate_stdout_filters", ()), theirs.get("duplicate_stderr_filters", ())),
    )


def _translate_variables(
    environ: Mapping[str, str],
    theirs: "Mapping[str, Any]",
    ours: "Mapping[str, Any]",
    take: Callable[[str, object, str], None],
) -> list[Problem]:
    python, timeout, prefix = (environ.get(name) for name in VARIABLES)
    if python and not ours["no_python"]:
        take("python", python, VARIABLES[0])
    try:
        if timeout:
            take("grace", parse.seconds(timeout), VARIABLES[1])
        if prefix:
            take("prefix", parse.template(_translate_prefix(prefix, theirs)), VARIABLES[2])
    except ValueError as error:
        name = VARIABLES[2] if prefix else VARIABLES[1]
        return [Problem(f"{name}={environ[name]!r} is not valid", str(error))]
    return []


def _translate_prefix(prefix: str, theirs: "Mapping[str, Any]") -> str:
    """`${rank}` and `$rank`, `$$` for a dollar, as string.Template has it; its braces mean themselves."""
    names = {"local_rank": "\1", "role_name": "\2", "rank": "\3"}
    prefix = prefix.replace("$$", "\4")
    for name, mark in names.items():
        prefix = prefix.replace("${" + name + "}", mark).replace("$" + name, mark)
    prefix = prefix.replace("{", "{{").replace("}", "}}")
    role = theirs.get("role", "default").replace("{", "{{").replace("}", "}}")
    prefix = prefix.replace("\1", "{local_rank}").replace("\2", role).replace("\3", "{rank}")
    return prefix.replace("\4", "$")


def _translate_rendezvous(
    theirs: "Mapping[str, Any]",
    sources: Mapping[str, str],
    ours: "Mapping[str, Any]",
    take: Callable[[str, object, str], None],
) -> list[Problem]:
    backend = theirs.get("rdzv_backend", "c10d" if ours["gives_ranks"] else "static")
    if backend not in ("static", "c10d"):
        cause = "expected static or c10d: the launchers themselves keep the run's state, and need no etcd"
        return [Problem(f"{sources['rdzv_backend']} {backend} is not supported", cause)]
    problems = _translate_conf(theirs, sources, take, backend == "static")
    if backend == "static" and ours["gives_ranks"]:
        hint = "leave --rdzv-backend out, or say c10d"
        what = "--rdzv-backend static is for a fixed number of nodes"
        return [*problems, Problem(what, f"--nnodes is {ours['min_nnodes']}:{ours['nnodes']}", hint)]
    if ours["nnodes"] == 1 and backend == "c10d":  # one node meets nobody, whatever its rank
        take("node_rank", 0, sources["rdzv_backend"])
        return problems
    if backend == "c10d":
        take("gives_ranks", True, sources["rdzv_backend"])
    if "rdzv_endpoint" not in theirs:
        return problems
    source, (host, port) = sources["rdzv_endpoint"], theirs["rdzv_endpoint"]
    take("master_addr", host, source)
    if port == 0 and ours["min_nnodes"] == 1:  # one node is enough, and nobody else can find it
        take("standalone", True, source)
        return problems
    if port == 0 and ours["nnodes"] > 1:
        what = f"{source}: a picked port cannot be known on other nodes"
        return [*problems, Problem(what, hint="name the same port on every node")]
    if backend == "c10d":  # it is the launchers that meet there; where workers meet, node 0 tells
        take("control_port", port or C10D_PORT, source)
        take("master_port", 0, source)
    elif port is not None:
        take("master_port", port, source)
    return problems


def _translate_conf(
    theirs: "Mapping[str, Any]",
    sources: Mapping[str, str],
    take: Callable[[str, object, str], None],
    is_static: bool,
) -> list[Problem]:
    source, problems = sources["rdzv_conf"], []
    read: dict[str, Any] = {}
    for key, value in theirs.get("rdzv_conf", ()):
        reader, name = _CONF.get(key, (parse.text, ""))
        try:
            read[key] = reader(value)
        except ValueError as error:
            problems.append(Problem(f"{source} {key}={value!r} is not valid", str(error)))
        else:
            if name:
                take(name, read[key], source)
    if is_static and "timeout" in read:
        take("join_timeout", read["timeout"], source)
    interval, attempts = read.get("keep_alive_interval"), read.get("keep_alive_max_attempt")
    if interval or attempts:
        take("heartbeat_timeout", (interval or 5.0) * (attempts or 3), source)  # torch's defaults
    return problems


def _check_refused(theirs: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    if theirs.get("logs_specs", "default") != "default":
        cause = "it is a class that torch loads into its launcher, and ddplaunch does not load torch"
        hint = "--log-dir keeps all output; --redirects and --tee choose streams as in torchrun"
        problems.append(Problem(f"{sources['logs_specs']} is not supported", cause, hint))
    if theirs.get("event_log_handler", "null") != "null":
        cause = "it is a handler that torch loads into its launcher, and ddplaunch does not load torch"
        hint = "--summary-json FILE writes how the run went"
        problems.append(Problem(f"{sources['event_log_handler']} is not supported", cause, hint))
    return problems
