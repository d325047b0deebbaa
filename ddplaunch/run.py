"""The story of a launch: config -> plan -> preflight -> supervise -> report.

Before the first worker starts, only click and the standard library are imported; what the end of a run
needs is imported at its end.
"""

import os
import time
from collections.abc import Mapping

from ddplaunch.cluster.locate import locate
from ddplaunch.config.line import CommandLine
from ddplaunch.config.resolve import LaunchConfig, resolve
from ddplaunch.job import Job, Setting
from ddplaunch.output.plain import say
from ddplaunch.plan.build import plan_launch, run_directory
from ddplaunch.preflight.gate import open_gate, refuse_nesting
from ddplaunch.preflight.probes import probe_machine
from ddplaunch.supervise.signals import catch_signals

LONGEST_JOB = 64  # of its name in a run id


def run(line: CommandLine, environ: Mapping[str, str]) -> int:
    """From what the user typed to the exit code."""
    started_at = time.time()
    allocation = None if line.options.get("emit") else locate(line, environ)
    config = resolve(line.options, line.script, line.script_args, environ, allocation)
    is_launch = not (config.emit or config.dry_run or config.check)
    if is_launch and config.nnodes == 1 and config.master_addr is not None:
        config = _meet_here(config)
    machine = probe_machine(environ, wants_cpu_map=config.numa_binding is not None)
    run_id = (
        "dry-run" if config.dry_run else _new_run_id(started_at, "" if allocation is None else allocation.job)
    )
    plan = plan_launch(config, machine, environ, run_id)
    if is_launch:
        refuse_nesting(environ)
    say(plan.notices)
    if config.emit is not None:
        from ddplaunch.inspect import emit_job

        return emit_job(line, config, machine, environ, plan)
    if config.dry_run or config.check:
        from ddplaunch.inspect import check, show_plan

        return (show_plan if config.dry_run else check)(config, machine, environ, plan)
    with catch_signals() as signals:
        if plan.nnodes > 1:
            from ddplaunch.nodes.launch import launch_together

            return launch_together(config, machine, environ, plan, signals, started_at)
        with open_gate(config, plan, environ, signals) as gate:
            say(gate.warnings)
            place = (gate.master_port, run_directory(machine, plan), started_at)
            return Job(Setting(config, environ, *place, gate.starter), plan, signals).run()


def _meet_here(config: LaunchConfig) -> LaunchConfig:
    """A single node's workers meet on this machine, also if a job file for many nodes names another one."""
    from ddplaunch.nodes.scout import find_master

    found = find_master(config.master_addr or "", config.master_port, connects=False)
    if found.is_local:
        return config
    why = found.error or f"{config.master_addr} is another machine"
    say([f"{config.sources['master_addr']} is not used, with one node: {why}"])
    return config._replace(master_addr=None)


def _new_run_id(started_at: float, job: str) -> str:
    """Readable, sortable, and unique even for launches in the same second; with a scheduler's job, if any."""
    named = "".join(c if c.isalnum() or c in "._" else "-" for c in job)[:LONGEST_JOB]
    when = time.strftime("%Y%m%d-%H%M%S", time.localtime(started_at))
    return "-".join([when, *([f"job{named}"] if named else []), os.urandom(4).hex()])
