"""The story of a launch: config -> plan -> preflight -> supervise -> report.

Before the first worker starts, only click and the standard library are imported; what the end of a run
needs is imported at its end.
"""

import os
import time
from collections.abc import Iterable, Mapping

from ddplaunch.config.resolve import LaunchConfig, resolve
from ddplaunch.errors import EXIT_OUTPUT, LaunchError, Problem
from ddplaunch.job import Job
from ddplaunch.plan.build import plan_launch, run_directory
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.gate import open_gate
from ddplaunch.preflight.probes import probe_machine


def run(
    options: Mapping[str, object],
    script: str | None,
    script_args: tuple[str, ...],
    environ: Mapping[str, str],
) -> int:
    """From what the user typed to the exit code."""
    started_at = time.time()
    config = resolve(options, script, script_args, environ)
    machine = probe_machine(environ, wants_cpu_map=config.numa_binding is not None)
    plan = plan_launch(config, machine, environ, "dry-run" if config.dry_run else _new_run_id(started_at))
    say(plan.notices)
    if config.dry_run:
        if plan.problems:
            raise LaunchError(*plan.problems)
        print_out(show_plan(config, machine, environ, plan))
        return 0
    if config.check:
        return check(config, machine, environ, plan)
    with open_gate(config, plan, environ) as gate:
        say(gate.warnings)
        directory = run_directory(machine, plan.run_id)
        return Job(config, plan, environ, gate.master_port, directory, started_at).run()


def show_plan(config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan) -> str:
    """What --dry-run prints."""
    from ddplaunch.plan import render

    workers = render.plan_all_nodes(config, machine, environ, plan)
    if config.format == "json":
        return render.render_json(plan, workers)
    if config.format == "shell":
        return render.render_shell(plan)
    from ddplaunch.output.table import draw_tables

    return draw_tables(*render.render_tables(config, plan, workers)) + "\n" + render.render_command(plan)


def check(config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan) -> int:
    """The whole preflight as a report; the exit code says whether a launch would start."""
    from ddplaunch.errors import render_problem
    from ddplaunch.preflight.gate import judge
    from ddplaunch.preflight.inspect import inspect_machine
    from ddplaunch.preflight.probes import probe_facts
    from ddplaunch.report.inspection import render_inspection, render_inspection_json

    facts = probe_facts(config, environ, wants_shared_memory=True)
    verdict, held = judge(config, plan, environ, facts)
    port = "not on this node" if plan.node_rank else "taken" if held is None else f"{held.port} is free"
    if held is not None:
        held.close()
    found = inspect_machine(plan, machine, environ, facts.limits, port)
    problems, warnings = verdict.problems, verdict.warnings
    code = problems[0].exit_code if problems else 0
    if config.format == "json":
        print_out(render_inspection_json(found, problems, warnings, code))
        return code
    from ddplaunch.output.table import draw_tables

    print_out(draw_tables(*render_inspection(found)))
    say(warnings)
    verdicts = [render_problem(problem) for problem in problems]
    print_out("\n".join(verdicts) if verdicts else f"ok: a launch would start {_describe_start(plan)}")
    return code


def _describe_start(plan: LaunchPlan) -> str:
    count = len(plan.workers)
    return f"{count} {'worker' if count == 1 else 'workers'} here, of {plan.world_size} in all"


def print_out(text: str) -> None:
    """To stdout, all of it; whoever reads it may be slow or gone."""
    rest = (text + "\n").encode("utf-8", "surrogateescape")
    try:
        while rest:
            rest = rest[_write_some(rest) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LaunchError(Problem("cannot write to stdout", reason, exit_code=EXIT_OUTPUT)) from error


def _write_some(data: bytes) -> int:
    import select

    try:
        return os.write(1, data)
    except BlockingIOError:  # a parent made it so
        select.select([], [1], [])
        return 0


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
