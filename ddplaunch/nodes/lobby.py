"""Waiting for the other nodes while nothing runs here: before the first attempt, and after the last."""

import select
import signal
import time
from collections.abc import Callable

from ddplaunch.errors import LaunchError, Problem
from ddplaunch.nodes import messages
from ddplaunch.nodes.company import Company
from ddplaunch.nodes.messages import Ending, Orders, Verdict
from ddplaunch.nodes.spoke import Spoke
from ddplaunch.nodes.waiting import WaitingLine
from ddplaunch.supervise.loop import LONGEST_SLEEP
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.state import STOP_SIGNALS

ROUND_TRIPS = 5  # measured by --check
HEAR_SECONDS = 0.7  # for the answer to a Ctrl-C
ANSWER_SECONDS = 1.0  # for node 0 to hear that this node has left


class Lobby:
    def __init__(self, company: Company, signals: SignalPipe, longest_stay: float) -> None:
        self.company, self._signals = company, signals
        self._longest_stay = longest_stay

    def join(self) -> Orders:
        """Wait until the run starts, and say for whom; a LaunchError tells why it does not.

        A run that ended well without this node is no error.
        """
        company = self.company
        company.tell(stage=messages.READY)
        with WaitingLine() as line:
            self._wait(line, lambda: company.may_start or company.is_over)
        verdict = company.orders.verdict
        if company.is_over and not (verdict is not None and verdict.outcome == "success"):
            raise _refusal(verdict)
        return company.orders

    def measure(self) -> Orders:
        """--check: how far node 0 is, and then who else came."""
        company, link = self.company, self.company.link
        with WaitingLine() as line:
            if isinstance(link, Spoke):
                self._measure(link, line)
            company.tell(stage=messages.READY, round_trip=link.round_trip)
            self._wait(line, lambda: company.is_over)
        return company.orders

    def _measure(self, spoke: Spoke, line: WaitingLine) -> None:
        for wanted in range(1, ROUND_TRIPS + 1):
            is_enough = _at_least(spoke, wanted)
            self._wait(line, lambda is_enough=is_enough: is_enough() or self.company.is_over)  # type: ignore[misc]
            spoke.ask()

    def tell_problems(self, problems: tuple[Problem, ...], seconds: float) -> tuple[Problem, ...]:
        """This node cannot start, and the others should not wait for it; what the run says to that."""
        company = self.company
        company.tell(stage=messages.CLEAR, ending=Ending(messages.PROBLEM, 0.0, problems=problems))
        until = time.monotonic() + seconds
        try:
            while not company.is_over and time.monotonic() < until:
                if signal.SIGINT in self._look(until):
                    break
        except LaunchError:
            return ()
        return company.orders.verdict.problems if company.orders.verdict is not None else ()

    def farewell(self) -> None:
        """This node knows how the run ended, and says so. Node 0 stays until all have."""
        if not self.company.is_over:
            return
        self.company.tell(stage=messages.LEFT, account=None)
        link = self.company.link
        until = time.monotonic() + (ANSWER_SECONDS if isinstance(link, Spoke) else self._longest_stay)
        while self.company.is_patient and not link.is_over and time.monotonic() < until:
            if signal.SIGINT in self._look(until):
                return

    def _wait(self, line: WaitingLine, is_enough: Callable[[], bool]) -> None:
        """Ctrl-C ends the wait, and the run's; if nobody answers to that, this node's."""
        company, until = self.company, None
        while not is_enough():
            line.show(company.link.waiting or company.orders.waiting or "waiting for the other nodes")
            wake = line.deadline if until is None else min(line.deadline, until)
            received = [signum for signum in self._look(wake) if signum in STOP_SIGNALS]
            line.note(company.take_notices())
            if received and not company.status.interrupted:
                until = time.monotonic() + HEAR_SECONDS
                company.tell(interrupted=received[0])
            is_alone = isinstance(company.link, Spoke) and not company.link.has_contact
            if until is not None and (is_alone or time.monotonic() >= until) and not is_enough():
                company.leave_alone()
                return

    def _look(self, deadline: float | None) -> list[int]:
        """Wait once for the channel and for signals, which are returned."""
        ask = select.poll()
        for fd in (self._signals.fd, *self.company.fds):
            ask.register(fd, select.POLLIN)
        times = [at for at in (deadline, self.company.deadline) if at is not None]
        wake = min(times, default=float("inf")) - time.monotonic()
        ask.poll(max(0.0, min(wake, LONGEST_SLEEP)) * 1000)
        self.company.receive()
        return self._signals.read()


def _at_least(spoke: Spoke, wanted: int) -> Callable[[], bool]:
    return lambda: spoke.round_trips >= wanted


def _refusal(verdict: Verdict | None) -> LaunchError:
    """Why the run did not come about, at least not here."""
    assert verdict is not None
    if verdict.problems:
        return LaunchError(*verdict.problems, outcome=verdict.outcome)
    what = f"{verdict.reason} before any worker was started here"
    last_words = verdict.failure.tail[-1] if verdict.failure is not None and verdict.failure.tail else ""
    problem = Problem(what, last_words, verdict.hint, verdict.exit_code)
    return LaunchError(problem, outcome=verdict.outcome)
