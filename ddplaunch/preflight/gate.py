"""Preflight as one step: look, judge, reserve the port, preload; everything that is wrong is said at once."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.checks import Verdict, check_launch, check_nesting
from ddplaunch.preflight.facts import Facts
from ddplaunch.preflight.ports import PortTakenError, Reservation, release_early, reserve_port
from ddplaunch.preflight.probes import probe_facts, raise_open_files
from ddplaunch.record import Record
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Starter


class Gate(Record):
    """The launch may go on."""

    master_port: int
    warnings: tuple[str, ...]
    starter: Starter


def refuse_nesting(environ: Mapping[str, str]) -> None:
    """Before anything else: a launcher inside a worker would meet the run it is in, port and all."""
    problems = check_nesting(environ)
    if problems:
        raise LaunchError(*problems)


@contextmanager
def open_gate(
    config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str], signals: SignalPipe | None
) -> Iterator[Gate]:
    """Hold what was checked until the run is over, or raise a LaunchError with every problem."""
    facts = probe_facts(config, environ, wants_shared_memory=bool(plan.visible.devices))
    verdict, held = judge(config, plan, environ, facts)
    try:
        if verdict.problems:
            raise LaunchError(*verdict.problems)
        if verdict.open_files is not None:
            raise_open_files(verdict.open_files)
        port = plan.master_port if held is None else held.port
        if held is not None and release_early():
            held.close()
        with _open_starter(config, plan, environ, signals) as starter:
            yield Gate(port, verdict.warnings, starter)
    finally:
        if held is not None:
            held.close()


def _open_starter(
    config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str], signals: SignalPipe | None
) -> AbstractContextManager[Starter]:
    if not config.preload:
        return nullcontext(Starter())
    from ddplaunch.preload.preloader import open_preloader

    return open_preloader(config, plan, environ, signals)


def judge(
    config: LaunchConfig, plan: LaunchPlan, environ: Mapping[str, str], facts: Facts
) -> tuple[Verdict, Reservation | None]:
    """Everything that is wrong, and the port, if it could be had and this node hosts it."""
    verdict = check_launch(config, plan, environ, facts)
    if plan.node_rank != 0:
        return verdict, None
    try:
        return verdict, reserve_port(plan.master_port)
    except (PortTakenError, OSError) as error:
        problem = _port_problem(plan.master_port, plan.nnodes, error)
        return verdict._replace(problems=(*verdict.problems, problem)), None


def _port_problem(port: int, nnodes: int, error: PortTakenError | OSError) -> Problem:
    if isinstance(error, PortTakenError):
        hint = "leave --master-port out, and ddplaunch picks a free one"
        if nnodes > 1:
            hint = "--master-port with another one, the same on every node"
        return Problem(
            f"port {port} on this machine is already in use",
            error.holder,
            hint,
            EXIT_PREFLIGHT,
        )
    reason = (error.strerror or str(error)).lower()
    hint = "ports below 1024 need root" if 0 < port < 1024 else ""
    return Problem(f"cannot use port {port} on this machine", reason, hint, EXIT_PREFLIGHT)
