"""The story of a launch: config -> plan -> preflight -> supervise -> report.

Before the first worker starts, only click and the standard library are imported; what the end of a run
needs is imported at its end.
"""

import os
import time
from collections.abc import Mapping

from ddplaunch.config.resolve import resolve
from ddplaunch.job import Job, Setting
from ddplaunch.output.plain import say
from ddplaunch.plan.build import plan_launch, run_directory
from ddplaunch.preflight.gate import open_gate
from ddplaunch.preflight.probes import probe_machine
from ddplaunch.supervise.signals import catch_signals


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
    if config.dry_run or config.check:
        from ddplaunch.inspect import check, show_plan

        return (show_plan if config.dry_run else check)(config, machine, environ, plan)
    with catch_signals() as signals:
        if plan.nnodes > 1:
            from ddplaunch.nodes.launch import launch_together

            return launch_together(config, machine, environ, plan, signals, started_at)
        with open_gate(config, plan, environ) as gate:
            say(gate.warnings)
            setting = Setting(config, environ, gate.master_port, run_directory(machine, plan), started_at)
            return Job(setting, plan, signals).run()


def _new_run_id(started_at: float) -> str:
    """Readable, sortable, and unique even for launches in the same second."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_at))}-{os.urandom(4).hex()}"
