"""--dry-run, --check and --emit: look, print, start nothing."""

import os
from collections.abc import Mapping

from ddplaunch.config.line import CommandLine
from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import LaunchError, Problem, render_problem
from ddplaunch.output.plain import print_out, say
from ddplaunch.output.table import draw_tables
from ddplaunch.plan import render
from ddplaunch.plan.model import LaunchPlan, Machine
from ddplaunch.preflight.checks import check_master
from ddplaunch.preflight.gate import judge
from ddplaunch.preflight.probes import probe_facts
from ddplaunch.preflight.survey import survey_machine
from ddplaunch.report.inspection import render_inspection, render_inspection_json


def show_plan(config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan) -> int:
    """Who would be which rank, as --format says."""
    if plan.problems:
        raise LaunchError(*plan.problems)
    workers = render.plan_all_nodes(config, machine, environ, plan)
    if config.format == "json":
        text = render.render_json(plan, workers)
    elif config.format == "shell":
        text = render.render_shell(plan)
    else:
        tables = render.render_tables(config, plan, workers)
        text = draw_tables(*tables) + "\n" + render.render_command(plan)
    print_out(text)
    return 0


def emit_job(
    line: CommandLine,
    config: LaunchConfig,
    machine: Machine,
    environ: Mapping[str, str],
    plan: LaunchPlan,
) -> int:
    """The job file for these very options."""
    from ddplaunch.emit.job import describe_job
    from ddplaunch.emit.render import render_job

    job = describe_job(line, config, plan, machine, environ, os.getcwd())
    print_out(render_job(str(config.emit), job).rstrip("\n"))
    return 0


def check(config: LaunchConfig, machine: Machine, environ: Mapping[str, str], plan: LaunchPlan) -> int:
    """The whole preflight as a report; the exit code says whether a launch would start."""
    facts = probe_facts(config, environ, wants_shared_memory=True)
    verdict, held = judge(config, plan, environ, facts)
    port = "not on this node" if plan.node_rank else "taken" if held is None else f"{held.port} is free"
    if held is not None:
        held.close()
    found = survey_machine(config, plan, machine, environ, facts.limits, port)
    problems, warnings = verdict.problems, verdict.warnings
    if config.preload and not problems:
        problems += _try_preload(config, plan, environ)
    if plan.nnodes > 1 and not check_master(plan):
        from ddplaunch.nodes.check import check_together

        seen, apart = check_together(config, plan, environ.get("DDPLAUNCH_TOKEN", ""))
        found["nodes"] = [node._asdict() for node in seen]
        problems += apart
    code = problems[0].exit_code if problems else 0
    if config.format == "json":
        print_out(render_inspection_json(found, problems, warnings, code))
        return code
    print_out(draw_tables(*render_inspection(found)))
    say(warnings)
    verdicts = [render_problem(problem) for problem in problems]
    print_out("\n".join(verdicts) if verdicts else f"ok: a launch would start {_describe_start(plan)}")
    return code


def _try_preload(config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str]) -> tuple[Problem, ...]:
    """Whether workers could be forked: only the imports tell."""
    from ddplaunch.preload.preloader import open_preloader

    try:
        with open_preloader(config, plan, environ, signals=None, prints=False):
            return ()
    except LaunchError as failure:
        return failure.problems


def _describe_start(plan: LaunchPlan) -> str:
    count = len(plan.workers)
    return f"{count} {'worker' if count == 1 else 'workers'} here, of {plan.world_size} in all"
