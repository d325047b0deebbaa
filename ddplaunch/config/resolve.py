"""Options and environment become a LaunchConfig in which every value knows its source. [pure]"""

from collections.abc import Mapping

from ddplaunch.config import parse
from ddplaunch.config.setting import Setting
from ddplaunch.config.settings import DEFAULT_MASTER_PORT, SETTINGS
from ddplaunch.errors import LaunchError, Problem
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

# Set by the launcher for its workers, not read as options.
NOT_OPTIONS = frozenset(
    {
        "DDPLAUNCH_RUN_ID",
        "DDPLAUNCH_LAUNCH_ID",
        "DDPLAUNCH_ATTEMPT",
        "DDPLAUNCH_DEVICE_IDS",
        "DDPLAUNCH_TOKEN",
    }
)

# What makes a worker this worker: a stale one in the launcher's environment is worth a word.
RANK_VARIABLES = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "NODE_RANK",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "DDPLAUNCH_RUN_ID",
        "DDPLAUNCH_LAUNCH_ID",
        "DDPLAUNCH_ATTEMPT",
    }
)

# --env must not take the launcher's own promises away from a worker.
RESERVED = RANK_VARIABLES | {
    "ROLE_NAME",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
}


class LaunchConfig(Record):
    """What the user asked for, complete and checked; `sources` says who said so."""

    script: str
    script_args: tuple[str, ...]
    sources: Mapping[str, str]
    nnodes: int
    node_rank: int
    nproc_per_node: tuple[int, ...] | str
    master_addr: str | None
    master_port: int
    standalone: bool
    module: bool
    no_python: bool
    python: str | None
    pass_local_rank: str | None
    use_env: bool
    env: tuple[tuple[str, str], ...]
    wrap: tuple[str, ...]
    wrap_ranks: frozenset[int] | None
    interactive_rank: int | None
    gpus: tuple[int, ...] | None
    gpus_per_proc: int
    isolate_gpus: bool
    numa_binding: str | None
    omp_threads: int | None
    output: str | None
    console: frozenset[int] | None
    prefix: str
    log_dir: str | None
    log_max_bytes: int | None
    summary_json: str | None
    grace: float
    max_restarts: int
    min_uptime: float
    restart_backoff: float
    stall_timeout: float | None
    timeout: float | None
    signal_scope: str
    control_port: int
    join_timeout: float
    heartbeat_timeout: float
    rdzv_id: str | None
    dry_run: bool
    format: str
    check: bool
    debug: bool


def resolve(
    options: Mapping[str, object],
    script: str | None,
    script_args: tuple[str, ...],
    environ: Mapping[str, str],
) -> LaunchConfig:
    """Flag > DDPLAUNCH_* > PET_* > default, for every setting; all problems at once."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for setting in SETTINGS:
        raw, source = _look_up(setting, options, environ)
        sources[setting.name] = source
        try:
            values[setting.name] = setting.default if raw is None else _parse(setting, raw)
        except ValueError as error:
            values[setting.name] = setting.default
            problems.append(
                Problem(f"{_quote(source, raw)} is not valid", str(error), "see ddplaunch --help")
            )
    if not script and not values["check"]:
        example = "ddplaunch --nproc-per-node 2 train.py"
        problems.append(Problem("no training script given", hint=f"name it after the options: {example}"))
    _apply_standalone(values, sources, problems)
    _apply_port_default(values, sources)
    problems += _contradictions(values, sources)
    if problems:
        raise LaunchError(*problems)
    return LaunchConfig(script=script or "", script_args=script_args, sources=sources, **values)


def find_unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """DDPLAUNCH_ variables that no setting reads: most likely misspelt."""
    known = {setting.variable for setting in SETTINGS} | NOT_OPTIONS
    return sorted(name for name in environ if name.startswith("DDPLAUNCH_") and name not in known)


def _look_up(
    setting: Setting, options: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[object | None, str]:
    given = options.get(setting.name)
    if given is not None and given != ():
        return given, setting.option
    names = (setting.variable, "PET_" + setting.name.upper()) if setting.torchrun else (setting.variable,)
    for name in names:
        if environ.get(name):  # an empty variable says nothing
            return environ[name], name
    return None, "default"


def _parse(setting: Setting, raw: object) -> object:
    if isinstance(raw, bool):
        return raw
    if setting.repeatable:
        return parse.assignments(raw if isinstance(raw, tuple) else parse.words(str(raw)))
    return setting.parse(str(raw))


def _quote(source: str, raw: object) -> str:
    shown = " ".join(map(str, raw)) if isinstance(raw, tuple) else str(raw)
    return f"{source} {shown!r}" if source.startswith("-") else f"{source}={shown!r}"


def _apply_standalone(values: "dict[str, Any]", sources: dict[str, str], problems: list[Problem]) -> None:
    """One node, whatever the environment says; a flag that says otherwise is a mistake."""
    if not values["standalone"]:
        return
    for name, alone in (("nnodes", 1), ("node_rank", 0), ("master_addr", None), ("master_port", None)):
        is_flag = sources[name].startswith("--")
        if values[name] == alone or (is_flag and alone is None):
            continue
        if is_flag and sources["standalone"].startswith("--"):
            problems.append(Problem(f"--standalone and {sources[name]} {values[name]} contradict each other"))
        values[name], sources[name] = alone, sources["standalone"]


def _apply_port_default(values: "dict[str, Any]", sources: dict[str, str]) -> None:
    if values["master_port"] is None:
        values["master_port"] = DEFAULT_MASTER_PORT if values["nnodes"] > 1 else 0
    if values["control_port"] is None:
        values["control_port"] = values["master_port"] + 1


def _contradictions(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    nnodes, node_rank, nproc = values["nnodes"], values["node_rank"], values["nproc_per_node"]
    if node_rank >= nnodes:
        which = "the only node rank is 0" if nnodes == 1 else f"node ranks are 0 to {nnodes - 1}"
        nodes = "1 node" if nnodes == 1 else f"{nnodes} nodes"
        where = _quote(sources["node_rank"], node_rank)
        problems.append(
            Problem(
                f"{where}: there is no such node",
                f"with {nodes} ({sources['nnodes']}), {which}",
                "node ranks count from 0; --nnodes is the number of machines",
            )
        )
    if isinstance(nproc, tuple) and len(nproc) not in (1, nnodes):
        problems.append(
            Problem(
                f"{sources['nproc_per_node']} names {len(nproc)} nodes, and there are {nnodes}",
                hint="give one number for all nodes, or one per node",
            )
        )
    if nnodes > 1 and values["master_port"] == 0:
        problems.append(
            Problem(
                "a picked port cannot be known on other nodes",
                f"{sources['master_port']} is 0, and there are {nnodes} nodes",
                "name the same --master-port on every node",
            )
        )
    problems += _check_control_port(values, sources)
    return problems + _contradicting_options(values, sources)


def _check_control_port(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    port = values["control_port"]
    if values["nnodes"] == 1 or port not in (values["master_port"], 65536):
        return []
    cause = f"{sources['master_port']} is {values['master_port']}, and the launchers need a port of their own"
    return [Problem("no port for the control channel", cause, "name another --control-port on every node")]


def _contradicting_options(values: "Mapping[str, Any]", sources: Mapping[str, str]) -> list[Problem]:
    problems = []
    if values["no_python"] and values["module"]:
        problems.append(Problem("-m and --no-python contradict each other", hint="a module needs Python"))
    if values["no_python"] and values["python"]:
        problems.append(Problem("--python and --no-python contradict each other"))
    if values["wrap_ranks"] is not None and not values["wrap"]:
        problems.append(Problem("--wrap-ranks without --wrap", hint="say what to wrap them in: --wrap CMD"))
    if values["stall_timeout"] is not None and values["interactive_rank"] is not None:
        cause = "a prompt that waits for somebody to type looks like a stall"
        problems.append(Problem("--stall-timeout and --interactive-rank contradict each other", cause))
    if values["log_max_bytes"] is not None and values["log_dir"] is None:
        problems.append(Problem("--log-max-bytes without --log-dir", hint="say where: --log-dir DIR"))
    if sources["format"] == "--format" and not (values["dry_run"] or values["check"]):
        problems.append(Problem("--format without --dry-run", hint="--dry-run prints, and starts nothing"))
    if values["check"] and values["dry_run"]:
        problems.append(Problem("--check and --dry-run contradict each other", hint="one report at a time"))
    if values["check"] and values["format"] == "shell":
        problems.append(Problem("--check has no --format shell", hint="--format json is for programs"))
    taken = sorted(name for name, _ in values["env"] if name in RESERVED)
    if taken:
        problems.append(
            Problem(f"--env cannot set {', '.join(taken)}", "the launcher computes it for each worker")
        )
    return problems
