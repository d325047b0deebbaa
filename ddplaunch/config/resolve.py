"""Options, environment and cluster become a LaunchConfig in which every value knows its source. [pure]"""

from collections.abc import Mapping

from ddplaunch.config import parse
from ddplaunch.config.contradictions import find_contradictions, quote
from ddplaunch.config.line import CommandLine
from ddplaunch.config.setting import Setting
from ddplaunch.config.settings import DEFAULT_MASTER_PORT, SETTINGS
from ddplaunch.config.variables import NOT_OPTIONS
from ddplaunch.errors import LaunchError, Problem
from ddplaunch.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from typing import Any

    from ddplaunch.cluster.model import Allocation
    from ddplaunch.config.streams import Streams


LAST_CALL_SECONDS = 3.0

_OURS = frozenset(setting.name for setting in SETTINGS)


class LaunchConfig(Record):
    """What the user asked for, complete and checked; `sources` says who said so."""

    script: str
    script_args: tuple[str, ...]
    sources: Mapping[str, str]
    allocation: "Allocation | None"  # what a scheduler says, if one started us
    cluster_problems: tuple[Problem, ...]  # what does not fit together there
    min_nnodes: int  # a run that may grow and shrink goes on with so many; 0: all of them are needed
    gives_ranks: bool  # the run itself gives out node ranks
    is_host: bool | None  # whether such a run's node 0 is here; None: where the master's address is
    last_call: float  # seconds for more nodes than needed to come, before the first attempt
    role: str  # of this node's workers
    overrides: tuple[tuple[str, str], ...]  # variables of workers that win over our own
    streams: "Streams | None"  # what goes to files of its own
    nnodes: int
    node_rank: int
    nproc_per_node: tuple[int, ...] | str
    master_addr: str | None
    master_port: int
    standalone: bool
    module: bool
    no_python: bool
    python: str | None
    preload: tuple[str, ...]
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
    emit: str | None
    debug: bool


def resolve(
    options: Mapping[str, object],
    script: str | None,
    script_args: tuple[str, ...],
    environ: Mapping[str, str],
    allocation: "Allocation | None" = None,
) -> LaunchConfig:
    """Flag > DDPLAUNCH_* > PET_* > cluster > default, for every setting; all problems at once."""
    values, sources, problems = _read_settings(SETTINGS, options, environ)
    if not script and not values["check"]:
        example = "ddplaunch --nproc-per-node 2 train.py"
        problems.append(Problem("no training script given", hint=f"name it after the options: {example}"))
    values.update(role="default", overrides=(), streams=None, min_nnodes=0, gives_ranks=False)
    values.update(is_host=None, last_call=LAST_CALL_SECONDS)
    if isinstance(values["nnodes"], tuple):
        values["min_nnodes"], values["nnodes"] = values["nnodes"]
        values["gives_ranks"] = True
    if _speaks_torchrun(options, environ):
        problems += _apply_torchrun(options, environ, values, sources, allocation)
    _apply_standalone(values, sources, problems)
    cluster_problems: tuple[Problem, ...] = ()
    if allocation is not None:
        line = CommandLine(options, script, script_args)
        cluster_problems = _apply_allocation(allocation, line, values, sources)
    _apply_port_default(values, sources)
    problems += find_contradictions(values, sources)
    if problems:
        raise LaunchError(*problems)
    return LaunchConfig(
        script=script or "",
        script_args=script_args,
        sources=sources,
        allocation=allocation,
        cluster_problems=cluster_problems,
        **values,
    )


def _read_settings(
    settings: tuple[Setting, ...], options: Mapping[str, object], environ: Mapping[str, str]
) -> "tuple[dict[str, Any], dict[str, str], list[Problem]]":
    """Values, where each is from, and what cannot be read; what nobody gave is as by default."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    problems: list[Problem] = []
    for setting in settings:
        raw, source = look_up(setting, options, environ)
        sources[setting.name] = source
        try:
            values[setting.name] = setting.default if raw is None else _parse(setting, raw)
        except ValueError as error:
            values[setting.name] = setting.default
            problems.append(Problem(f"{quote(source, raw)} is not valid", str(error), "see ddplaunch --help"))
    return values, sources, problems


def _speaks_torchrun(options: Mapping[str, object], environ: Mapping[str, str]) -> bool:
    """Whether anything is said in words of torchrun's that are not ours: they are not loaded for nothing."""
    return any(name not in _OURS for name in options) or any(
        name.startswith(("PET_", "DDPLAUNCH_", "PYTHON_EXEC", "TORCH_ELASTIC_", "TORCHELASTIC_LOG_"))
        for name in environ
    )


def _apply_torchrun(
    options: Mapping[str, object],
    environ: Mapping[str, str],
    values: "dict[str, Any]",
    sources: dict[str, str],
    allocation: "Allocation | None",
) -> list[Problem]:
    """What is said in torchrun's words becomes ours; our own words win, as a rule."""
    from ddplaunch.config.torchrun import TORCHRUN, translate

    known = dict(values)
    if sources["nnodes"] == "default" and allocation is not None and "nnodes" in allocation.values:
        known["nnodes"] = allocation.values["nnodes"].value

    said = {name: value for name, value in options.items() if value != ""}  # `--rdzv-endpoint=$UNSET`
    theirs, their_sources, problems = _read_settings(TORCHRUN, said, environ)
    given = {name: value for name, value in theirs.items() if value is not None and value is not False}
    translated = translate(given, their_sources, environ, known)
    if given.get("run_path"):  # in torchrun, too, it wins over these
        values.update(no_python=False, module=False)
    for name, (value, source) in translated.values.items():
        before = sources.get(name, "default")
        is_stronger = not before.startswith("-") or name in translated.firm
        if before == "default" or (source.startswith("-") and is_stronger):
            values[name], sources[name] = value, source
    return problems + list(translated.problems)


def find_unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """DDPLAUNCH_ variables that no setting reads: most likely misspelt."""
    known = {setting.variable for setting in SETTINGS} | NOT_OPTIONS
    unknown = [name for name in environ if name.startswith("DDPLAUNCH_") and name not in known]
    if unknown:
        from ddplaunch.config.torchrun import TORCHRUN

        known = {setting.variable for setting in TORCHRUN}
    return sorted(name for name in unknown if name not in known)


def look_up(
    setting: Setting, options: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[object | None, str]:
    """What was said about a setting, as text, and where."""
    given = options.get(setting.name)
    is_unset = given == "" and setting.torchrun and setting.parse is parse.text  # `--log-dir=$UNSET`
    if given is not None and given != () and not is_unset:
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


def _apply_standalone(values: "dict[str, Any]", sources: dict[str, str], problems: list[Problem]) -> None:
    """One node, whatever the environment says; a flag that says otherwise is a mistake."""
    if not values["standalone"]:
        return
    for name, alone in (("nnodes", 1), ("node_rank", 0), ("master_addr", None), ("master_port", None)):
        is_flag = sources[name].startswith("--")
        if values[name] == alone or (is_flag and alone is None):
            continue
        is_enough = name == "nnodes" and values["min_nnodes"] == 1  # 1:4 can be one
        if is_flag and sources["standalone"].startswith("--") and not is_enough:
            problems.append(Problem(f"--standalone and {sources[name]} {values[name]} contradict each other"))
        values[name], sources[name] = alone, sources["standalone"]
    values.update(min_nnodes=0, gives_ranks=False)


def _apply_allocation(
    allocation: "Allocation", line: CommandLine, values: "dict[str, Any]", sources: dict[str, str]
) -> tuple[Problem, ...]:
    """What nobody said is as the scheduler says. Where that is unclear, one node is enough to tell it."""
    from ddplaunch.config.reconcile import reconcile

    offer = reconcile(allocation, line, values, sources)
    for name, found in offer.values.items():
        if sources[name] == "default":
            values[name], sources[name] = found.value, f"{found.source} ({allocation.scheduler})"
    if offer.problems:
        values.update(nnodes=1, node_rank=0)
        if isinstance(values["nproc_per_node"], tuple):
            values["nproc_per_node"] = values["nproc_per_node"][:1]
    return offer.problems


def _apply_port_default(values: "dict[str, Any]", sources: dict[str, str]) -> None:
    if values["master_port"] is None:  # a run that gives out ranks can tell the port as well
        is_known = values["nnodes"] > 1 and not values["gives_ranks"]
        values["master_port"] = DEFAULT_MASTER_PORT if is_known else 0
    if values["control_port"] is None:
        values["control_port"] = (values["master_port"] or DEFAULT_MASTER_PORT - 1) + 1
