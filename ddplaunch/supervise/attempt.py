"""One attempt: start all workers, watch them to the end, remember how it went."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ddplaunch.plan.environment import for_attempt
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.supervise.processes import kill_group
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Worker, spawn_worker

if TYPE_CHECKING:
    from ddplaunch.supervise.loop import Supervisor


class AttemptPlace(NamedTuple):
    """Where an attempt happens: which one, on which port, with which directory for error files."""

    number: int
    master_port: int
    run_directory: str


def spawn_all(plan: LaunchPlan, environ: Mapping[str, str], place: AttemptPlace) -> list[Worker]:
    """Every worker of this node, or none: if one cannot be started, those before it are ended."""
    started: list[Worker] = []
    try:
        for spec in plan.workers:
            spec = for_attempt(spec, place.number, place.master_port, place.run_directory)
            started.append(spawn_worker(spec, environ, time.monotonic()))
    except BaseException:
        for worker in started:
            worker.process.kill()
            if worker.leads_group:
                kill_group(worker.process.pid)
            worker.process.wait()
        raise
    return started


def watch(
    plan: LaunchPlan,
    environ: Mapping[str, str],
    workers: list[Worker],
    signals: SignalPipe,
    grace_seconds: float,
) -> "Supervisor":
    """Supervise started workers until all are gone. What this needs is imported while they boot."""
    import gc

    from ddplaunch.output.console import open_console
    from ddplaunch.supervise.loop import Supervisor

    gc.enable()  # off since the program began; from here on it may run for weeks
    supervisor = Supervisor(signals, open_console(environ), plan.world_size, grace_seconds)
    try:
        for worker in workers:
            supervisor.add(worker)
        supervisor.run()
    except BaseException:
        supervisor.stop_now()
        raise
    return supervisor
