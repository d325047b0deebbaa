"""One attempt: start all workers, watch them to the end, leave nothing of theirs behind."""

import os
import signal
import time
from collections.abc import Mapping

from ddplaunch.plan.environment import for_attempt
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.record import TYPE_CHECKING, Record
from ddplaunch.supervise.processes import send_signal
from ddplaunch.supervise.spawn import Prepared, Worker, is_terminal, prepare_worker, spawn_worker
from ddplaunch.supervise.tether import Tether

if TYPE_CHECKING:
    from ddplaunch.supervise.loop import Supervisor


class AttemptPlace(Record):
    """Where an attempt happens: which one, on which port, with which directory for error files."""

    number: int
    restarts: int  # the attempts that followed a failure
    master_port: int
    run_directory: str | None


def spawn_all(
    plan: LaunchPlan, environ: Mapping[str, str], place: AttemptPlace, tether: Tether
) -> list[Worker]:
    """Every worker of this node, or none: if one cannot be started, those before it are ended."""
    if any(spec.interactive for spec in plan.workers) and is_terminal(0):
        tether.share_terminal()
    lifeline, prepared, started = tether.lifeline, list[Prepared](), list[Worker]()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        for spec in plan.workers:
            spec = for_attempt(spec, place.number, place.restarts, place.master_port, place.run_directory)
            prepared.append(prepare_worker(spec, environ, lifeline, null))
        with tether.starter.starting() as start:
            for worker in prepared:
                started.append(spawn_worker(worker, lifeline, time.monotonic(), start))
    except BaseException:
        for each in started:
            send_signal(each.pid, signal.SIGKILL, to_group=each.leads_group)
        for worker in prepared:
            worker.give_up()
        raise
    finally:
        os.close(null)
        for worker in prepared:
            worker.close()
    return started


def watch(supervisor: "Supervisor", tether: Tether) -> bool:
    """Until all workers are gone; after a failure, everything else they had started, too: if that can be."""
    supervisor.run()
    from ddplaunch.supervise.census import describe_processes

    if supervisor.state.cause is None:
        helpers = tether.find_helpers()
        if helpers:
            named = describe_processes(helpers)
            supervisor.pump.say(f"ddplaunch: note: still running, and left alone: {named}\n")
        return True
    left = tether.sweep()
    workers = {worker.pid for worker in supervisor.workers.values()}
    others = [process for process in left if process.pid not in workers]  # those are in the report
    if others:
        supervisor.pump.say(f"ddplaunch: note: could not be killed: {describe_processes(others)}\n")
    return not left
