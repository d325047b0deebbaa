"""Judging what the probes saw: problems stop a launch, warnings do not. [pure]"""

from collections.abc import Mapping

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_PREFLIGHT, Problem
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.facts import Facts, LimitFacts, ScriptFacts
from ddplaunch.record import Record

FILES_PER_WORKER = 6  # two pipes, a pidfd, a lifeline, up to two log files
FILES_OF_LAUNCHER = 40  # its own, and those that are open for a moment
MEMORY_PER_WORKER = 150 << 20  # what `import torch` takes
FULL_SHARE = 0.9  # of a card's memory
SMALL_SHARED_MEMORY = 1 << 30


class Verdict(Record):
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    open_files: int | None  # raise the soft limit to this


def check_launch(config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str], facts: Facts) -> Verdict:
    too_few, open_files = check_open_files(
        facts.limits, len(plan.workers), plan.nnodes if plan.node_rank == 0 else 1
    )
    problems = [
        *check_nesting(environ),
        *plan.problems,
        *check_script(config, facts.script),
        *check_program("--python", facts.interpreter),
        *check_program("--wrap", facts.wrapper),
        *check_summary(config, facts.unwritable),
        *(plan.visible.problems or check_devices(plan, config.gpus_per_proc)),
        *check_master(plan),
        *too_few,
    ]
    warnings = [*check_cards(plan), *check_memory(facts.limits, 1 if config.preload else len(plan.workers))]
    return Verdict(tuple(problems), tuple(warnings), open_files)


def check_nesting(environ: Mapping[str, str]) -> list[Problem]:
    if "LOCAL_RANK" not in environ:
        return []
    if "DDPLAUNCH_RUN_ID" not in environ:
        return _check_foreign_nesting(environ)
    return [
        Problem(
            "ddplaunch was started inside one of its own workers",
            f"DDPLAUNCH_RUN_ID={environ['DDPLAUNCH_RUN_ID']} and LOCAL_RANK={environ['LOCAL_RANK']} are set",
            "start it once per node; if a run inside a run is meant: env -u DDPLAUNCH_RUN_ID ddplaunch ...",
            EXIT_PREFLIGHT,
        )
    ]


def _check_foreign_nesting(environ: Mapping[str, str]) -> list[Problem]:
    """torchrun, and what is built on it, marks its workers; ours have another mark that tells them apart."""
    if "TORCHELASTIC_RUN_ID" not in environ or "DDPLAUNCH_LAUNCH_ID" in environ:
        return []
    return [
        Problem(
            "ddplaunch was started inside a worker of torchrun",
            f"TORCHELASTIC_RUN_ID={environ['TORCHELASTIC_RUN_ID']} and "
            f"LOCAL_RANK={environ['LOCAL_RANK']} are set",
            "start ddplaunch instead of torchrun, once per node",
            EXIT_PREFLIGHT,
        )
    ]


def check_script(config: LaunchConfig, script: ScriptFacts) -> list[Problem]:
    what = "program" if config.no_python else "script"
    if script.missing:
        hint = f"./{script.path} is here" if script.is_here else ""
        hint = hint if config.no_python else "the script comes after ddplaunch's own options"
        return [Problem(f"cannot find the {what} {script.path}", script.missing, hint)]
    if script.is_directory and not script.is_program and not config.no_python:
        cause = "and there is no __main__.py in it"
        return [Problem(f"{script.path} is a directory", cause, "name the script inside it")]
    if config.no_python and (script.is_directory or not script.is_executable):
        cause = "it is a directory" if script.is_directory else "--no-python runs it as a program"
        return [Problem(f"{script.path} is not executable", cause, f"chmod +x {script.path}")]
    if not script.is_readable and not config.no_python:
        return [Problem(f"cannot read the {what} {script.path}", "permission denied")]
    return []


def check_program(option: str, program: ScriptFacts | None) -> list[Problem]:
    if program is None:
        return []
    if program.missing:
        return [Problem(f"cannot find {option} {program.path}", program.missing)]
    if program.is_directory or not program.is_executable:
        return [Problem(f"{option} {program.path} is not executable")]
    return []


def check_summary(config: LaunchConfig, unwritable: str) -> list[Problem]:
    if not unwritable:
        return []
    source = config.sources["summary_json"]
    return [Problem(f"cannot write {source} {config.summary_json}", unwritable)]


def check_devices(plan: LaunchPlan, per: int = 1) -> list[Problem]:
    """Without any visible card the run is a CPU run, and any number of workers is fine."""
    workers, cards = len(plan.workers), len(plan.visible.devices)
    if not cards or workers * per <= cards:
        return []
    each = "" if per == 1 else f" with {per} cards each"
    return [
        Problem(
            f"{workers} workers{each}, but only {cards} visible {'card' if cards == 1 else 'cards'}",
            f"--nproc-per-node is {workers} ({plan.sources['nproc_per_node']}); "
            f"{plan.visible.source} shows {', '.join(plan.visible.devices)}",
            f"--nproc-per-node {max(1, cards // per)}, or show more cards, "
            f"or none ({plan.visible.variable}=) for a CPU run",
            EXIT_PREFLIGHT,
        )
    ]


def check_cards(plan: LaunchPlan) -> list[str]:
    """Cards that others are on, and cards that differ."""
    cards = [card for card in plan.visible.cards if card is not None]
    warnings = []
    for card in cards:
        if not card.users:
            continue
        users = ", ".join(f"pid {pid} holds {held >> 20} MiB" for pid, held in card.users)
        is_full = card.memory_bytes and card.used_bytes > FULL_SHARE * card.memory_bytes
        state = "is full" if is_full else "is in use"
        memory = f"{card.used_bytes >> 20} of {card.memory_bytes >> 20} MiB"
        warnings.append(f"card {card.number} {state} ({memory}): {users}")
    names = sorted({card.name for card in cards if card.name})
    if len(names) > 1:
        warnings.append(f"the cards differ ({', '.join(names)}): the slowest sets the pace")
    return warnings


def check_master(plan: LaunchPlan) -> list[Problem]:
    if plan.nnodes == 1:
        return []
    address = plan.master_addr
    hint = "--master-addr with the address or name of node 0, the same on every node"
    if address is None and plan.gives_ranks:
        hint = "--rdzv-endpoint HOST:PORT, the same on every node: node 0 is whoever is there"
    if address is None:
        return [Problem("no master address", f"there are {plan.nnodes} nodes", hint, EXIT_PREFLIGHT)]
    if plan.gives_ranks:  # who is at that address is node 0: all nodes may be on one machine
        return []
    if address in ("localhost", "::1", "0.0.0.0", "::") or address.startswith("127."):
        cause = f"there are {plan.nnodes} nodes, and on each of them {address} is the node itself"
        return [
            Problem(
                f"master address {address} cannot be reached from other nodes", cause, hint, EXIT_PREFLIGHT
            )
        ]
    return []


def check_open_files(limits: LimitFacts, workers: int, nodes: int = 1) -> tuple[list[Problem], int | None]:
    """Too few of them for these workers; otherwise what to raise the soft limit to, if it must be."""
    wanted = FILES_OF_LAUNCHER + FILES_PER_WORKER * workers + nodes - 1  # each other node is a connection
    if limits.open_files is None or limits.open_files >= wanted:
        return [], None
    hard = limits.open_files_hard
    if hard is None or hard >= wanted:
        return [], wanted
    what = f"{workers} workers need {wanted} open files, and only {hard} are allowed"
    hint = "a higher hard limit: ulimit -Hn, limits.conf, or docker run --ulimit nofile="
    return [Problem(what, "ulimit -Hn is the hard limit", hint, EXIT_PREFLIGHT)], None


def check_memory(limits: LimitFacts, workers: int) -> list[str]:
    """Warnings: what is short now may do all the same."""
    warnings = []
    shared = limits.shared_memory_bytes
    if shared is not None and shared < SMALL_SHARED_MEMORY:
        warnings.append(
            f"/dev/shm has {shared >> 20} MiB; DataLoader workers and NCCL want 1 GiB or more "
            "(docker run --shm-size=8g)"
        )
    memory = limits.available_memory_bytes
    if memory is not None and memory < workers * MEMORY_PER_WORKER:
        warnings.append(
            f"{memory >> 20} MiB of memory are free; {workers} workers need about "
            f"{workers * MEMORY_PER_WORKER >> 20} MiB for torch alone"
        )
    return warnings
