"""One preloader process, seen from the launcher: started, listened to, ended."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ddplaunch.errors import LaunchError, Problem
from ddplaunch.output.plain import say
from ddplaunch.preload.title import PADDING
from ddplaunch.preload.wire import encode_words, receive_message, send_message
from ddplaunch.record import TYPE_CHECKING, Record
from ddplaunch.report.outcome import EXIT_TIMEOUT
from ddplaunch.supervise.lifeline import Lifeline
from ddplaunch.supervise.processes import send_signal
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.state import STOP_SIGNALS
from ddplaunch.words import describe_exit, describe_seconds, describe_signal

if TYPE_CHECKING:
    from typing import Any

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")
REMARK_SECONDS = 5.0  # between two words about a wait
LOOK_SECONDS = 0.5  # a process that died may have left the channel to a child of its own
LEAVE_SECONDS = 1.0


class Recipe(Record):
    """What all workers of a node have in common."""

    modules: tuple[str, ...]
    said_by: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    leads_session: bool  # not when a worker reads from the terminal: that has to be in the terminal's session
    prints: bool  # what modules print goes to stdout; else to stderr


class Running:
    """From its start on it is tied to the launcher's life; `close` may be called at any moment."""

    def __init__(self, recipe: Recipe, signals: SignalPipe | None) -> None:
        self._signals = signals
        self._lifeline = Lifeline()
        strand = self._lifeline.open_strand()
        self._channel, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                [recipe.argv[0], "-u", PROGRAM, str(theirs.fileno()), PADDING],
                env=recipe.env,
                stdin=subprocess.DEVNULL,
                stdout=None if recipe.prints else 2,
                pass_fds=(theirs.fileno(), *(() if strand is None else (strand,))),
                start_new_session=recipe.leads_session,
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            theirs.close()
        self._lifeline.tie(strand, self.process.pid, is_group=recipe.leads_session)
        self.tell({"modules": recipe.modules, "leads_session": recipe.leads_session, "strand": strand,
                   "argv": encode_words(recipe.argv)})  # fmt: skip

    def tell(self, message: "dict[str, Any]", descriptors: Sequence[int] = ()) -> None:
        send_message(self._channel, message, descriptors)

    def hear(
        self, seconds: float | None, doing: str, channel: socket.socket | None = None
    ) -> "dict[str, Any]":
        """The next message. Signals to the launcher are heeded meanwhile, and a long wait is said.

        EOFError: the process is gone. LaunchError: somebody asks for the end, or the time is over.
        """
        channel = channel or self._channel
        began_at = remarked_at = time.monotonic()
        ask = select.poll()
        ask.register(channel, select.POLLIN)
        if self._signals is not None:
            ask.register(self._signals.fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in ask.poll(LOOK_SECONDS * 1000)}
            self._heed_signals()
            if channel.fileno() in ready:
                return receive_message(channel)[0]
            if self.process.poll() is not None:
                raise EOFError
            now = time.monotonic()
            if seconds is not None and now - began_at >= seconds:
                what = f"--timeout was reached while {doing}"
                raise LaunchError(Problem(what, exit_code=EXIT_TIMEOUT), outcome="timeout")
            if now - remarked_at >= REMARK_SECONDS:
                remarked_at = now
                say([f"still {doing}, after {describe_seconds(now - began_at)}"])

    def describe_end(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            return describe_exit(self.process.wait(LEAVE_SECONDS))
        return "it does not answer"

    def close(self) -> None:
        """Whatever it is doing, and with what the modules have started; a pid that was reaped is nobody's."""
        if self.process.poll() is None:
            send_signal(self.process.pid, signal.SIGKILL, to_group=True)
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LEAVE_SECONDS)
        self._let_go()

    def _let_go(self) -> None:
        if self._channel.fileno() >= 0:
            self._channel.close()
            self._lifeline.untie()
            self._lifeline.close()

    def _heed_signals(self) -> None:
        for signum in [] if self._signals is None else self._signals.read():
            if signum in STOP_SIGNALS or signum == signal.SIGQUIT:
                what = f"received {describe_signal(signum)} while no worker was running"
                raise LaunchError(Problem(what, exit_code=128 + signum), outcome="interrupted")
            if signum == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)
