"""Opening this node's end of the control channel, at the right place."""

import os
import select
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ddplaunch.config.resolve import LaunchConfig
from ddplaunch.errors import EXIT_JOIN, EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.nodes.channel import PATIENCE_SHARE
from ddplaunch.nodes.company import Company
from ddplaunch.nodes.contact import Terms
from ddplaunch.nodes.hello import probe_hello
from ddplaunch.nodes.hub import Hub
from ddplaunch.nodes.lobby import Lobby
from ddplaunch.nodes.messages import UNSEATED
from ddplaunch.nodes.roster import Rules
from ddplaunch.nodes.scout import Finding, Scout
from ddplaunch.nodes.spoke import Spoke
from ddplaunch.nodes.waiting import WaitingLine
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.ports import PortTakenError, Reservation, release_early, reserve_port
from ddplaunch.supervise.restart import RestartPolicy
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.state import STOP_SIGNALS
from ddplaunch.words import describe_signal

RESOLVE_AGAIN_SECONDS = 1.0
SOMEWHERE = 1  # the node rank to plan with before the run has given one out: not 0


@contextmanager
def open_company(
    config: LaunchConfig,
    plan: LaunchPlan,
    token: str,
    signals: SignalPipe,
    *,
    is_guest: bool = False,
    claim: Reservation | None = None,
    master_port: int = 0,
) -> Iterator[Lobby]:
    """The control channel, open as long as the run lasts. A guest comes to somebody else's, as any node."""
    is_host = plan.node_rank == 0 and not is_guest
    hello = probe_hello(config, plan)
    with ExitStack() as held:
        if is_host:
            link: Hub | Spoke = _open_hub(config, plan, token, held, claim, master_port)
        else:
            link = _open_spoke(config, plan, token)
        held.callback(link.close)
        node = UNSEATED if config.gives_ranks and not is_host else plan.node_rank
        lobby = Lobby(Company(link, node, hello), signals, 2 * config.heartbeat_timeout)
        held.callback(lobby.farewell)
        yield lobby


def _open_hub(
    config: LaunchConfig,
    plan: LaunchPlan,
    token: str,
    held: ExitStack,
    claim: Reservation | None,
    master_port: int,
) -> Hub:
    rules = Rules(
        run_id=plan.run_id,
        nnodes=plan.nnodes,
        patience_seconds=config.heartbeat_timeout * PATIENCE_SHARE,
        heartbeat_seconds=config.heartbeat_timeout,
        stall_seconds=config.stall_timeout or 0.0,
        policy=RestartPolicy(config.max_restarts, config.min_uptime, config.restart_backoff),
        gives_ranks=config.gives_ranks,
        min_nnodes=config.min_nnodes,
        last_call_seconds=config.last_call,
        master_port=master_port,
    )
    port = plan.control_port or 0
    try:
        # Strictly, as for the master port: ZeroMQ would bind over a port that somebody else has reserved.
        reserved = reserve_port(port) if claim is None else claim
        held.callback(reserved.close)
        if release_early():
            reserved.close()
        return Hub(rules, port, token, config.join_timeout)
    except (PortTakenError, OSError) as error:
        reason = error.holder if isinstance(error, PortTakenError) else os.strerror(error.errno or 0).lower()
        hint = "--control-port with another one, the same on every node"
        what = f"control port {port} on this machine cannot be used"
        raise LaunchError(Problem(what, reason, hint, EXIT_PREFLIGHT)) from None


def _open_spoke(config: LaunchConfig, plan: LaunchPlan, token: str) -> Spoke:
    terms = Terms(
        host=plan.master_addr or "",
        port=plan.control_port or 0,
        has_token=bool(token),
        patience_seconds=config.heartbeat_timeout * PATIENCE_SHARE,
        heartbeat_seconds=config.heartbeat_timeout,
    )
    return Spoke(terms, token, config.join_timeout)


def claim_host(config: LaunchConfig, plan: LaunchPlan, signals: SignalPipe) -> Reservation | None:
    """In a run that gives out node ranks, the first launcher at the master's address takes node 0's port."""
    is_here = config.is_host
    if is_here is None:
        is_here = _find_master(config, plan, signals).is_local
    if not is_here:
        return None
    try:
        return reserve_port(plan.control_port or 0)
    except (PortTakenError, OSError):  # by another launcher on this machine, most likely
        return None


def find_self(config: LaunchConfig, plan: LaunchPlan, signals: SignalPipe) -> Problem | None:
    """Whether the master's address is this machine, as it has to be on node 0."""
    found = _find_master(config, plan, signals)
    return None if found.is_local else _describe_misplaced(plan, found)


def _find_master(config: LaunchConfig, plan: LaunchPlan, signals: SignalPipe) -> Finding:
    """The addresses behind the master's name, which may take its time to be known."""
    until = time.monotonic() + config.join_timeout
    with WaitingLine() as line:
        while True:
            found = _scout_self(plan, signals, line)
            if not found.error:
                return found
            if time.monotonic() >= until:
                hint = "--master-addr with a name or address of this machine that every node can reach"
                raise LaunchError(Problem("the master's name is not known", found.error, hint, EXIT_JOIN))
            _wait(line, found.error, signals, time.monotonic() + RESOLVE_AGAIN_SECONDS)


def _scout_self(plan: LaunchPlan, signals: SignalPipe, line: WaitingLine) -> Finding:
    scout = Scout(plan.master_addr or "", plan.master_port, connects=False)
    try:
        _wait(line, f"looking up {plan.master_addr}", signals, None, scout.fd)
    except BaseException:
        scout.end()
        raise
    return scout.read()


def _wait(
    line: WaitingLine, text: str, signals: SignalPipe, until: float | None, fd: int | None = None
) -> None:
    """Until then, or until something can be read; Ctrl-C ends it all."""
    ask = select.poll()
    for each in (signals.fd, fd):
        if each is not None:
            ask.register(each, select.POLLIN | select.POLLHUP)
    while until is None or time.monotonic() < until:
        line.show(text)
        wake = line.deadline if until is None else min(until, line.deadline)
        ready = {each for each, _ in ask.poll(max(0.0, wake - time.monotonic()) * 1000)}
        for signum in signals.read():
            if signum in STOP_SIGNALS:
                what = f"received {describe_signal(signum)} before any worker was started"
                raise LaunchError(Problem(what, exit_code=128 + signum))
        if fd in ready:
            return


def _describe_misplaced(plan: LaunchPlan, found: Finding) -> Problem:
    addresses = ", ".join(found.addresses)
    ranks = "1" if plan.nnodes == 2 else f"1 to {plan.nnodes - 1}"
    resolves = "" if addresses == plan.master_addr else f" ({addresses})"
    return Problem(
        "node 0 has to run on the master, and this machine is not it",
        f"{plan.sources['master_addr']}: {plan.master_addr}{resolves} is no address of {plan.host}",
        f"is this another node (--node-rank {ranks})? else --master-addr {plan.host}, on every node",
        EXIT_PREFLIGHT,
    )
