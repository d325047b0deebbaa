"""A run as a job file asks for it. [pure]"""

from collections.abc import Mapping

from ddplaunch.cluster.model import TOPOLOGY
from ddplaunch.config import parse
from ddplaunch.config.line import CommandLine, render_command_line
from ddplaunch.config.resolve import LaunchConfig, look_up
from ddplaunch.config.settings import SETTINGS
from ddplaunch.config.torchrun import TORCHRUN
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.record import Record

# About this very call, not about the job.
_ABOUT_EMITTING = frozenset({"emit", "dry_run", "check", "format", "standalone", "debug"})

# How nodes meet is the job file's part.
_MEETING = frozenset({*TOPOLOGY, "rdzv_backend", "rdzv_endpoint"})


class JobFile(Record):
    """What every kind of job file is made of."""

    made_by: str  # the command that printed it
    name: str  # letters, digits and dashes: all schedulers take that
    nnodes: int
    gpus: int  # of a node; 0: as many as there are, and nobody here knows that
    is_gpu_sure: bool  # otherwise the line about GPUs is there to be uncommented
    cpus: int  # of a node, at least
    grace_seconds: float | None  # None: nobody asked for one
    line: CommandLine  # what to run on each node, without a word about nodes
    master_addr: str | None
    master_port: int | None  # None: nobody asked for one
    control_port: int | None
    bin_directory: str  # where ddplaunch is installed here
    directory: str  # where the user stands

    def command(self, **changes: object) -> str:
        """The command line of a node; None takes an option away."""
        options = {**self.line.options, **changes}
        given = {name: value for name, value in options.items() if value is not None}
        return render_command_line(self.line._replace(options=given))


def describe_job(
    line: CommandLine,
    config: LaunchConfig,
    plan: LaunchPlan,
    machine: Machine,
    environ: Mapping[str, str],
    directory: str,
) -> JobFile:
    made_by = line._replace(options=_collect_options(line, environ))
    kept = {
        name: value
        for name, value in made_by.options.items()
        if name not in _MEETING and name not in _ABOUT_EMITTING
    }
    wants_cards = config.gpus is not None or config.isolate_gpus or config.nproc_per_node == "gpu"
    nproc, cards = max(plan.nprocs), len(plan.visible.devices) if config.gpus is None else len(config.gpus)
    if config.nproc_per_node in ("auto", "gpu"):
        nproc = max(1, cards // config.gpus_per_proc)
    is_counted = bool(cards) or isinstance(config.nproc_per_node, tuple)
    return JobFile(
        made_by=_in_one_line(render_command_line(made_by)),
        name=_make_name(config.script),
        nnodes=config.nnodes,
        gpus=nproc * config.gpus_per_proc if is_counted else 0,
        is_gpu_sure=bool(cards) or wants_cards or config.gpus_per_proc > 1,
        cpus=nproc * (config.omp_threads or 1),
        grace_seconds=None if config.sources["grace"] == "default" else config.grace,
        line=made_by._replace(options=kept),
        master_addr=config.master_addr,
        master_port=None if config.sources["master_port"] == "default" else config.master_port,
        control_port=None if config.sources["control_port"] == "default" else config.control_port,
        bin_directory=machine.python.rpartition("/")[0],
        directory=directory,
    )


def _collect_options(line: CommandLine, environ: Mapping[str, str]) -> dict[str, object]:
    """What was given as flags or variables, as flags."""
    given: dict[str, object] = {}
    for setting in SETTINGS + TORCHRUN:
        raw, _ = look_up(setting, line.options, environ)
        value = None if raw is None else raw if isinstance(raw, tuple | bool) else str(raw)
        if setting.repeatable and isinstance(value, str):
            value = parse.words(value)
        if not setting.metavar and isinstance(value, str):
            value = parse.flag(value)
        if value is not None and value is not False:
            given[setting.name] = value
    return given


def _in_one_line(command: str) -> str:
    """It stands in a comment."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in command)


def _make_name(script: str) -> str:
    stem = script.rstrip("/").rpartition("/")[2].removesuffix(".py").lower()
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in stem).split()
    name = "-".join(words)[:40].strip("-") or "train"
    return name if name[0].isalpha() else f"run-{name}"
