"""The story of a launch: config -> plan -> preflight -> supervise -> report.

Before the first worker starts, only click and the standard library are imported; what the end of a run
needs is imported at its end.
"""

import os
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ddplaunch.config.resolve import LaunchConfig, resolve
from ddplaunch.plan.build import plan_launch, run_directory
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.gate import Gate, open_gate
from ddplaunch.preflight.probes import probe_machine

if TYPE_CHECKING:
    from ddplaunch.report.model import RunResult
    from ddplaunch.supervise.attempt import AttemptPlace
    from ddplaunch.supervise.loop import Supervisor

FLUSH_SECONDS = 1.5  # for a reader that is slow to take our last words


def run(
    options: Mapping[str, object],
    script: str | None,
    script_args: tuple[str, ...],
    environ: Mapping[str, str],
) -> int:
    """From what the user typed to the exit code."""
    started_at = time.time()
    config = resolve(options, script, script_args, environ)
    machine = probe_machine(environ)
    plan = plan_launch(config, machine, environ, "dry-run" if config.dry_run else _new_run_id(started_at))
    say(plan.notices)
    if config.dry_run:
        show_plan(config, machine, environ, plan)
        return 0
    with open_gate(config, plan, environ) as gate:
        say(gate.warnings)
        return launch(config, machine, environ, plan, gate, started_at)


def launch(
    config: LaunchConfig,
    machine: Machine,
    environ: Mapping[str, str],
    plan: LaunchPlan,
    gate: Gate,
    started_at: float,
) -> int:
    """Start the workers, watch them, say how it ended."""
    from ddplaunch.output.files import open_run_directory, remove_run_directory
    from ddplaunch.supervise.attempt import AttemptPlace, spawn_all, watch
    from ddplaunch.supervise.signals import SignalPipe

    directory = run_directory(machine, plan.run_id)
    place = AttemptPlace(0, gate.master_port, directory)
    open_run_directory(directory)
    signals = SignalPipe()
    try:
        workers = spawn_all(plan, environ, place)
        supervisor = watch(plan, environ, workers, signals, config.grace)
        result = conclude(plan, supervisor, place, started_at)
        report(config, result, supervisor)
        return result.exit_code
    finally:
        signals.close()
        remove_run_directory(directory)


def conclude(
    plan: LaunchPlan, supervisor: "Supervisor", place: "AttemptPlace", started_at: float
) -> "RunResult":
    """How it went, with the last words of whoever failed first."""
    from ddplaunch.output.files import read_error_file
    from ddplaunch.plan.environment import error_file
    from ddplaunch.report.collect import (
        Started,
        collect_attempt,
        collect_failure,
        collect_result,
        failed_rank,
    )

    state = supervisor.state
    started = [Started(w.spec, w.process.pid, w.started_at) for w in supervisor.workers.values()]
    attempt = collect_attempt(plan, state, started, place.number, time.monotonic())
    rank = failed_rank(state)
    failure = None
    if rank is not None:
        recorded = read_error_file(error_file(place.run_directory, place.number, rank))
        stderr, stdout = supervisor.pump.last_lines(rank)
        failure = collect_failure(state, attempt, rank, stderr, stdout, recorded)
    return collect_result(plan, state, (attempt,), failure, started_at, time.time() - started_at)


def report(config: LaunchConfig, result: "RunResult", supervisor: "Supervisor") -> None:
    """The workers' output first, then our last block, then the summary file."""
    if result.outcome == "success":
        supervisor.flush(deadline=None)
    else:
        from ddplaunch.report.text import render_report

        deadline = time.monotonic() + FLUSH_SECONDS
        supervisor.flush(deadline)
        supervisor.say(render_report(result) + "\n")
        supervisor.flush(deadline)
    supervisor.close()
    if config.summary_json is not None:
        save_summary(config.summary_json, result)


def save_summary(path: str, result: "RunResult") -> None:
    from ddplaunch.output.files import write_atomically
    from ddplaunch.report.summary import render_summary

    try:
        write_atomically(path, render_summary(result))
    except OSError as error:
        say([f"cannot write the summary to {path}: {(error.strerror or str(error)).lower()}"])


def show_plan(config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan) -> None:
    from ddplaunch.plan.render import plan_all_nodes, render_json, render_shell, render_tables

    workers = plan_all_nodes(config, machine, environ, plan)
    if config.format == "table":
        from ddplaunch.output.table import print_tables

        print_tables(*render_tables(config, plan, workers))
    else:
        text = render_json(plan, workers) if config.format == "json" else render_shell(plan)
        os.write(1, (text + "\n").encode("utf-8", "surrogateescape"))


def say(notices: Iterable[str]) -> None:
    """One line each on stderr; a launcher without stderr goes on all the same."""
    for notice in notices:
        try:
            os.write(2, f"ddplaunch: note: {notice}\n".encode("utf-8", "backslashreplace"))
        except OSError:
            return


def _new_run_id(started_at: float) -> str:
    """Readable, sortable, and unique even for launches in the same second."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_at))}-{os.urandom(3).hex()}"
