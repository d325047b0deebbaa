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
from ddplaunch.nodes.roster import Rules
from ddplaunch.nodes.scout import Finding, Scout
from ddplaunch.nodes.spoke import Spoke
from ddplaunch.nodes.waiting import WaitingLine
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.preflight.ports import PortTakenError, release_early, reserve_port
from ddplaunch.supervise.restart import RestartPolicy
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.state import STOP_SIGNALS
from ddplaunch.words import describe_signal

RESOLVE_AGAIN_SECONDS = 1.0


@contextmanager
def open_company(
    config: LaunchConfig, plan: LaunchPlan, token: str, signals: SignalPipe, *, is_guest: bool = False
) -> Iterator[Lobby]:
    """The control channel, open as long as the run lasts. A guest comes to somebody else's, as any node."""
    is_host = plan.node_rank == 0 and not is_guest
    hello = probe_hello(config, plan)
    with ExitStack() as held:
        link = _open_hub(config, plan, token, held) if is_host else _open_spoke(config, plan, token)
        held.callback(link.close)
        lobby = Lobby(Company(link, plan.node_rank, hello), signals, 2 * config.heartbeat_timeout)
        held.callback(lobby.farewell)
        yield lobby


def _open_hub(config: LaunchConfig, plan: LaunchPlan, token: str, held: ExitStack) -> Hub:
    rules = Rules(
        run_id=plan.run_id,
        nnodes=plan.nnodes,
        patience_seconds=config.heartbeat_timeout * PATIENCE_SHARE,
        heartbeat_seconds=config.heartbeat_timeout,
        stall_seconds=config.stall_timeout or 0.0,
        policy=RestartPolicy(config.max_restarts, config.min_uptime, config.restart_backoff),
    )
    port = plan.control_port or 0
    try:
        # Strictly, as for the master port: ZeroMQ would bind over a port that somebody else has reserved.
        reserved = reserve_port(port)
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


def find_self(config: LaunchConfig, plan: LaunchPlan, signals: SignalPipe) -> Problem | None:
    """Whether the master's address is this machine, as it has to be on node 0. A name may take its time."""
    until = time.monotonic() + config.join_timeout
    with WaitingLine() as line:
        while True:
            found = _scout_self(plan, signals, line)
            if not found.error:
                return None if found.is_local else _describe_misplaced(plan, found)
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
        f"--master-addr {plan.master_addr}{resolves} is no address of {plan.host}",
        f"is this another node (--node-rank {ranks})? else --master-addr with its own address",
        EXIT_PREFLIGHT,
    )
