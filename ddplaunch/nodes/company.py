"""This node among the others: what it tells them, and what it is told."""

import os
import signal
import time
from collections.abc import Callable

from ddplaunch.errors import EXIT_LOST, LaunchError
from ddplaunch.nodes import messages
from ddplaunch.nodes.hub import Hub
from ddplaunch.nodes.link import NoContact, NodeZeroLost, Notice
from ddplaunch.nodes.messages import UNSEATED, Account, Cause, Ending, Hello, Orders, Status, Verdict
from ddplaunch.nodes.spoke import Spoke
from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.events import SignalReceived, StopOrdered, TimedOut, WorkerExited
from ddplaunch.supervise.state import TERM_WINDOW_SECONDS
from ddplaunch.supervise.state import State as Supervision
from ddplaunch.words import describe_signal

if TYPE_CHECKING:
    from ddplaunch.report.model import WorkerRecord
    from ddplaunch.supervise.loop import Supervisor

_WENT_ON = Cause(messages.LOST, "the run went on without this node", signal.SIGTERM)
_IDLE = frozenset({messages.LOOKING, messages.READY, messages.CLEAR})


class Company:
    """Keeps this node's status up to date with node 0, and node 0's orders at hand."""

    def __init__(self, link: Hub | Spoke, node: int, hello: Hello) -> None:
        self.link = link
        self.orders = Orders(-1, messages.WAIT, "")
        self.status = Status(node, os.urandom(16).hex(), 0, hello, messages.LOOKING)
        self._next_attempt = 0  # the first one that has not been begun here
        self._lost: Verdict | None = None  # node 0 is gone, and with it the run
        self.is_patient = True  # nobody has asked three times
        self._asked_at = 0.0  # when somebody here asked for the end of the run
        self._stopped = (-1, False)  # the attempt that was last ordered to stop, and whether at once
        self._said = -1  # the number of the orders whose words about waiting are on the screen
        self._notices: list[str] = []
        link.tell(self.status)

    @property
    def is_over(self) -> bool:
        return self.orders.stage == messages.LEAVE

    @property
    def may_start(self) -> bool:
        """There is an attempt to begin, and nobody here has asked for the end meanwhile."""
        is_new = self.orders.attempt >= self._next_attempt
        wants_end = self.status.interrupted or self._has_timed_out
        return self.orders.stage == messages.START and is_new and not wants_end

    @property
    def _has_timed_out(self) -> bool:
        return self.status.ending is not None and self.status.ending.kind == messages.TIMEOUT

    # --- the channel ---------------------------------------------------------------------------------

    @property
    def fds(self) -> tuple[int, ...]:
        return self.link.fds

    @property
    def deadline(self) -> float | None:
        return self.link.deadline

    def tell(self, **changes: object) -> None:
        """Whatever is new about this node."""
        status = self.status._replace(**changes)  # type: ignore[arg-type]
        if status != self.status:
            self.status = status
            self.link.tell(status)

    def receive(self) -> list[StopOrdered]:
        """Take what came over the channel; an order to stop is an event for the supervision."""
        for news in self.link.receive():
            match news:
                case Notice(text=text):
                    self._notices.append(text)
                case NoContact(problem=problem):
                    raise LaunchError(problem)
                case NodeZeroLost(reason=reason):
                    self._orphan(reason)
                case _:
                    self._obey(news)
        return self._stop_orders()

    def rank_in(self, orders: Orders) -> int:
        """This node's rank in the attempt that starts."""
        return orders.seats.index(self.status.node)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def _obey(self, orders: Orders) -> None:
        if orders.seat not in (UNSEATED, self.status.node):
            self.tell(node=orders.seat)
        if self.status.run_id not in ("", orders.run_id):
            if self.status.stage not in (messages.LOOKING, messages.READY):
                self._orphan("another run answers in its place")
                return
        elif orders.number <= self.orders.number:
            return
        self.orders, self.status = orders, self.status._replace(run_id=orders.run_id)
        if (
            orders.stage == messages.STOP
            and self.status.stage in _IDLE
            and orders.attempt >= self._next_attempt
        ):
            # It was over before its beginning came through to this node: nothing is there to be stopped.
            self._next_attempt = orders.attempt + 1
            ending = self.status.ending if self._has_timed_out else None  # how the attempt before ended
            self.tell(stage=messages.CLEAR, attempt=orders.attempt, ending=ending, account=None)

    def _stop_orders(self) -> list[StopOrdered]:
        """An order to stop, once; once more when it became urgent."""
        orders, attempt = self.orders, self.status.attempt
        if self.status.stage != messages.RUNNING or orders.attempt < attempt:
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

    def _orphan(self, reason: str) -> None:
        """Node 0 gives no more orders: what runs here stops, and then it is over."""
        if self._lost is not None:
            return
        text, known = f"node 0 was lost: {reason}", self.orders.cause
        hint = "look at node 0: power, network, whether its launcher was killed"
        reasons = f"{known.text}; then {text}" if known is not None else text
        self._lost = Verdict("node-lost", EXIT_LOST, reasons, hint=hint)
        if self.status.interrupted:
            self._lost = self._own_interruption()
        if self.status.stage == messages.RUNNING:
            cause = Cause(messages.LOST, text, signal.SIGTERM)
            self.orders = self.orders._replace(stage=messages.STOP, cause=cause, attempt=self.status.attempt)
        else:
            self.leave_alone(self._lost)

    def leave_alone(self, verdict: Verdict | None = None) -> None:
        """Without waiting for what the others say."""
        self.orders = self.orders._replace(stage=messages.LEAVE, verdict=verdict or self._own_interruption())

    def _own_interruption(self) -> Verdict:
        signum = self.status.interrupted
        return Verdict("interrupted", 128 + signum, f"received {describe_signal(signum)}")

    # --- an attempt ----------------------------------------------------------------------------------

    def begin(self, attempt: int) -> None:
        self._next_attempt = attempt + 1
        self.tell(
            stage=messages.RUNNING,
            attempt=attempt,
            ending=None,
            account=None,
            is_silent=False,
            interrupted=0,
            wants_kill=False,
        )

    def update(self, state: Supervision) -> None:
        """Tell the others what has changed here."""
        at, ending = time.monotonic(), self.status.ending
        match state.cause:
            case WorkerExited(rank=rank, returncode=returncode):
                ending = ending or Ending(messages.FAILED, at - state.cause.at, rank, returncode)
            case SignalReceived(signum=signum):
                if ending is None or ending.kind == messages.FAILED:  # of that very signal
                    ending = Ending(messages.SIGNAL, at - state.cause.at, signum=signum)
            case TimedOut():
                ending = ending or Ending(messages.TIMEOUT, at - state.cause.at)
        asked = state.interrupted or state.cause
        interrupted = asked.signum if isinstance(asked, SignalReceived) else 0
        if interrupted and not self.status.interrupted:
            self._asked_at = at
        self.tell(
            ending=ending, is_silent=state.is_silent, interrupted=interrupted, wants_kill=state.is_impatient
        )

    def settle(
        self, supervisor: "Supervisor", account: Account, sweep: Callable[[], bool], timeout_at: float | None
    ) -> Orders:
        """This node's workers are over: wait for what that means for the run."""
        attempt, is_success = self.status.attempt, supervisor.state.cause is None
        self.tell(stage=messages.DONE if is_success else messages.CLEAR, account=account)
        if self._lost is not None:
            self.leave_alone(self._lost)
        if is_success:
            self._await(supervisor, timeout_at, lambda: self.orders.stage != messages.START)
            if not self.is_over:
                self.tell(stage=messages.CLEAR, account=account._replace(is_clear=sweep()))
        goes_on = (messages.WAIT, messages.START)
        self._await(
            supervisor,
            timeout_at,
            lambda: self.is_over or (self.orders.attempt > attempt and self.orders.stage in goes_on),
        )
        return self.orders

    def await_start(self, supervisor: "Supervisor", timeout_at: float | None) -> Orders:
        """Between two attempts."""
        self._await(supervisor, timeout_at, lambda: self.is_over or self.may_start)
        return self.orders

    def _await(
        self, supervisor: "Supervisor", timeout_at: float | None, is_enough: Callable[[], bool]
    ) -> None:
        while not is_enough():
            if self.orders.waiting and self._said < self.orders.number:
                supervisor.pump.say(f"ddplaunch: {self.orders.waiting}\n")
            self._said = self.orders.number
            received = supervisor.rest(timeout_at, self._changes_from(self._said, is_enough))
            if received is not None:
                self._hear_signal(received)
            elif timeout_at is not None and time.monotonic() >= timeout_at:
                self.tell(ending=Ending(messages.TIMEOUT, 0.0))
                timeout_at = None

    def _changes_from(self, number: int, is_enough: Callable[[], bool]) -> Callable[[], bool]:
        return lambda: is_enough() or self.orders.number > number

    def _hear_signal(self, received: SignalReceived) -> None:
        """Nothing runs here any more: the first is for the run, the second kills it, the third is for us."""
        if not self.status.interrupted:
            self._asked_at = received.at
            age = time.monotonic() - received.at
            ending = self.status.ending or Ending(messages.SIGNAL, age, signum=received.signum)
            self.tell(interrupted=received.signum, ending=ending)
        elif received.signum == signal.SIGTERM and received.at - self._asked_at < TERM_WINDOW_SECONDS:
            return  # Slurm sends two
        elif not self.status.wants_kill:
            self.tell(wants_kill=True)
        else:
            self.is_patient = False
            self.leave_alone()

    def other_workers(self, attempt: int) -> "list[WorkerRecord]":
        """What node 0 knows of the workers of an attempt on other nodes."""
        if isinstance(self.link, Spoke):
            return []
        accounts = self.link.state.accounts.get(attempt, {})
        return [worker for account in accounts.values() for worker in account.workers]
