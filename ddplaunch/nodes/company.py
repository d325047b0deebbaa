"""This node among the others: what it tells them, what it is told, and waiting for them."""

import os
import select
import signal
import time
from collections.abc import Callable

from ddplaunch.errors import LaunchError, Problem
from ddplaunch.nodes import messages
from ddplaunch.nodes.hub import Hub
from ddplaunch.nodes.link import NoContact, NodeZeroLost, Notice
from ddplaunch.nodes.messages import Account, Cause, Ending, Hello, Orders, Status, Verdict
from ddplaunch.nodes.spoke import Spoke
from ddplaunch.nodes.waiting import WaitingLine
from ddplaunch.record import TYPE_CHECKING
from ddplaunch.report.outcome import EXIT_LOST
from ddplaunch.supervise.events import SignalReceived, StopOrdered, TimedOut, WorkerExited
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.state import STOP_SIGNALS
from ddplaunch.supervise.state import State as Supervision

if TYPE_CHECKING:
    from ddplaunch.report.model import WorkerRecord
    from ddplaunch.supervise.loop import Supervisor

ROUND_TRIPS = 5  # measured by --check
_WENT_ON = Cause(messages.LOST, "the run went on without this node", signal.SIGTERM)

HEAR_SECONDS = 0.7  # for the answer to a Ctrl-C while nothing runs yet


class Company:
    """Keeps this node's status up to date with node 0, and node 0's orders at hand."""

    def __init__(self, link: Hub | Spoke, node: int, hello: Hello, signals: SignalPipe) -> None:
        self._link, self._signals = link, signals
        self._status = Status(node, os.urandom(16).hex(), 0, hello, messages.LOOKING)
        link.tell(self._status)
        self._said = -1  # the number of the orders whose words about waiting are on the screen
        self._next_attempt = 0  # the first one that has not been begun here
        self._lost: Verdict | None = None  # node 0 is gone, and with it the run
        self._news: list[str] = []
        self._stopped = (-1, False)  # the attempt that was last ordered to stop, and whether at once
        self.orders = Orders(-1, messages.WAIT, "")

    # --- before the first attempt --------------------------------------------------------------------

    def join(self) -> Orders:
        """Wait until the run starts, and say for whom; a LaunchError tells why it does not."""
        self._tell(stage=messages.READY)
        with WaitingLine() as line:
            self._wait(line, lambda: self.orders.stage in (messages.START, messages.LEAVE))
        if self._is_over():
            raise LaunchError(*_describe_refusal(self.orders.verdict))
        return self.orders

    def measure(self) -> Orders:
        """--check: how far node 0 is, and then who else came."""
        with WaitingLine() as line:
            if isinstance(self._link, Spoke):
                self._measure(self._link, line)
                self._tell(stage=messages.READY, round_trip=self._link.round_trip)
            else:
                self._tell(stage=messages.READY, round_trip=0.0)
            self._wait(line, self._is_over)
        return self.orders

    def _measure(self, spoke: Spoke, line: WaitingLine) -> None:
        self._tell(stage=messages.LOOKING)
        for wanted in range(1, ROUND_TRIPS + 1):
            self._wait(line, lambda wanted=wanted: spoke.round_trips >= wanted or self._is_over())  # type: ignore[misc]
            spoke.ask()

    def tell_problems(self, problems: tuple[Problem, ...], seconds: float) -> tuple[Problem, ...]:
        """This node cannot start, and the others should not wait for it; what the run says to that."""
        self._tell(stage=messages.CLEAR, ending=Ending(messages.PROBLEM, 0.0, problems=problems))
        until = time.monotonic() + seconds
        try:
            while not self._is_over() and time.monotonic() < until:
                if any(signum in STOP_SIGNALS for signum in self._look(until)):
                    break
        except LaunchError:
            return ()
        return self.orders.verdict.problems if self.orders.verdict is not None else ()

    def _is_over(self) -> bool:
        return self.orders.stage == messages.LEAVE

    def _wait(self, line: WaitingLine, is_enough: Callable[[], bool]) -> None:
        """Nothing runs here yet: Ctrl-C ends the wait, and the run's."""
        until = None
        while not is_enough():
            line.show(self._link.waiting or self.orders.waiting or "waiting for the other nodes")
            received = [
                signum for signum in self._look(_first(line.deadline, until)) if signum in STOP_SIGNALS
            ]
            line.note(self.take_notices())
            if received and not self._status.interrupted:
                until = time.monotonic() + HEAR_SECONDS
                self._tell(interrupted=received[0])
            if until is not None and (received[1:] or time.monotonic() >= until or not self._has_contact()):
                self.orders = self.orders._replace(stage=messages.LEAVE, verdict=self._own_interruption())
                return

    def _has_contact(self) -> bool:
        return isinstance(self._link, Hub) or self._link.has_contact

    def _own_interruption(self) -> Verdict:
        signum = self._status.interrupted
        return Verdict("interrupted", 128 + signum, "interrupted before any worker was started")

    def _look(self, deadline: float | None) -> list[int]:
        """Wait once for the channel and for signals, which are returned."""
        ask = select.poll()
        for fd in (self._signals.fd, *self._link.fds):
            ask.register(fd, select.POLLIN)
        wake = _first(deadline, self._link.deadline)
        ask.poll(None if wake is None else max(0.0, wake - time.monotonic()) * 1000)
        self.receive()
        return self._signals.read()

    # --- during an attempt ---------------------------------------------------------------------------

    @property
    def fds(self) -> tuple[int, ...]:
        return self._link.fds

    @property
    def deadline(self) -> float | None:
        return self._link.deadline

    @property
    def waiting(self) -> str:
        return self.orders.waiting

    def receive(self) -> list[StopOrdered]:
        """Take what came over the channel; an order to stop is an event for the supervision."""
        for news in self._link.receive():
            match news:
                case Notice(text=text):
                    self._news.append(text)
                case NoContact(problem=problem):
                    raise LaunchError(problem)
                case NodeZeroLost(reason=reason):
                    hint = "look at node 0: power, network, whether its launcher was killed"
                    self._orphan(Verdict("node-lost", EXIT_LOST, f"node 0 was lost: {reason}", hint=hint))
                case _ if news.number > self.orders.number:
                    self._obey(news)
        return self._stop_orders()

    def _obey(self, orders: Orders) -> None:
        self.orders = orders
        is_idle = self._status.stage in (messages.READY, messages.CLEAR)
        if orders.stage == messages.STOP and is_idle and orders.attempt >= self._next_attempt:
            # It was over before its beginning came through to this node: nothing is there to be stopped.
            self._next_attempt = orders.attempt + 1
            self._tell(stage=messages.CLEAR, attempt=orders.attempt, account=None)

    def take_notices(self) -> list[str]:
        notices, self._news = self._news, []
        return notices

    def update(self, state: Supervision) -> None:
        """Tell the others what has changed here."""
        at, ending = time.monotonic(), self._status.ending
        match state.cause:
            case WorkerExited(rank=rank, returncode=returncode):
                ending = ending or Ending(messages.FAILED, at - state.cause.at, rank, returncode)
            case SignalReceived(signum=signum):
                ending = ending or Ending(messages.SIGNAL, at - state.cause.at, signum=signum)
            case TimedOut():
                ending = ending or Ending(messages.TIMEOUT, at - state.cause.at)
        asked = state.interrupted or state.cause
        interrupted = asked.signum if isinstance(asked, SignalReceived) else 0
        self._tell(
            ending=ending, is_silent=state.is_silent, interrupted=interrupted, wants_kill=state.is_impatient
        )

    def begin(self, attempt: int) -> None:
        self._next_attempt = attempt + 1
        self._tell(
            stage=messages.RUNNING,
            attempt=attempt,
            ending=None,
            account=None,
            is_silent=False,
            interrupted=0,
            wants_kill=False,
        )

    # --- after an attempt ----------------------------------------------------------------------------

    def settle(
        self, supervisor: "Supervisor", account: Account, sweep: Callable[[], bool], timeout_at: float | None
    ) -> Orders:
        """This node's workers are over: wait for what that means for the run."""
        is_success = supervisor.state.cause is None
        self._tell(stage=messages.DONE if is_success else messages.CLEAR, account=account)
        if is_success:
            self._await(supervisor, timeout_at, lambda: self.orders.stage != messages.START)
            if self.orders.stage == messages.STOP:
                self._tell(stage=messages.CLEAR, account=account._replace(is_clear=sweep()))
        if self._lost is not None:
            self._orphan(self._lost)
        attempt = self._status.attempt
        self._await(supervisor, timeout_at, lambda: self._is_over() or self.orders.attempt > attempt)
        return self.orders

    def await_start(self, supervisor: "Supervisor", timeout_at: float | None) -> Orders:
        """Between two attempts."""
        self._await(supervisor, timeout_at, lambda: self.orders.stage in (messages.START, messages.LEAVE))
        return self.orders

    def _await(
        self, supervisor: "Supervisor", timeout_at: float | None, is_enough: Callable[[], bool]
    ) -> None:
        while not is_enough():
            if self.orders.waiting and self._said < self.orders.number:
                supervisor.pump.say(f"ddplaunch: {self.orders.waiting}\n")
            self._said = self.orders.number
            received = supervisor.rest(timeout_at, self._changes_from(self._said, is_enough))
            if received is not None and self._status.interrupted:  # twice: no more waiting for others
                self.orders = self.orders._replace(stage=messages.LEAVE, verdict=self._own_interruption())
            elif received is not None:
                self._tell(interrupted=received.signum, ending=self._status.ending or _signalled(received))
            elif timeout_at is not None and time.monotonic() >= timeout_at:
                self._tell(ending=Ending(messages.TIMEOUT, 0.0))
                timeout_at = None

    def _changes_from(self, number: int, is_enough: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: is_enough() or self.orders.number > number

    def other_workers(self) -> "list[WorkerRecord]":
        """What node 0 knows of the workers of this attempt on other nodes."""
        if isinstance(self._link, Spoke):
            return []
        statuses = [member.status for member in self._link.state.members.values()]
        accounts = [status.account for status in statuses if status.attempt == self._status.attempt]
        return [worker for account in accounts if account is not None for worker in account.workers]

    def farewell(self) -> None:
        """This node knows how the run ended, or is at its own end; node 0 stays until all know."""
        if not self._is_over():
            return
        self._tell(stage=messages.LEFT, account=None)
        while not self._link.is_over:
            if any(signum in STOP_SIGNALS for signum in self._look(None)):
                return

    # --- small things --------------------------------------------------------------------------------

    def _tell(self, **changes: object) -> None:
        status = self._status._replace(**changes)  # type: ignore[arg-type]
        if status != self._status:
            self._status = status
            self._link.tell(status)

    def _stop_orders(self) -> list[StopOrdered]:
        """An order to stop, once; once more when it became urgent."""
        orders, attempt = self.orders, self._status.attempt
        if self._status.stage != messages.RUNNING or orders.attempt < attempt:
            return []
        went_on = orders.attempt > attempt or orders.stage in (messages.WAIT, messages.LEAVE)
        if not went_on and orders.stage != messages.STOP:
            return []
        urgency = (attempt, orders.kills)
        if self._stopped >= urgency:
            return []
        self._stopped = urgency
        cause = _WENT_ON if went_on or orders.cause is None else orders.cause
        aborts = cause.kind == messages.STALLED
        return [StopOrdered(time.monotonic(), cause.text, cause.signum, aborts, orders.kills)]

    def _orphan(self, verdict: Verdict) -> None:
        """Node 0 gives no more orders: what runs here stops, and then it is over."""
        self._lost = verdict
        if self._status.stage == messages.RUNNING:
            cause = Cause(messages.LOST, verdict.reason, signal.SIGTERM)
            self.orders = self.orders._replace(stage=messages.STOP, cause=cause, attempt=self._status.attempt)
        else:
            self.orders = self.orders._replace(stage=messages.LEAVE, verdict=verdict)


def _describe_refusal(verdict: Verdict | None) -> tuple[Problem, ...]:
    """Why a run did not come about."""
    assert verdict is not None
    return verdict.problems or (
        Problem(f"{verdict.reason} before any worker was started", exit_code=verdict.exit_code),
    )


def _signalled(received: SignalReceived) -> Ending:
    return Ending(messages.SIGNAL, time.monotonic() - received.at, signum=received.signum)


def _first(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)
