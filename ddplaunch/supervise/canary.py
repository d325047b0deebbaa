"""Telling a terminal's Ctrl-C from a signal that was sent to the launcher alone.

A terminal signals its whole foreground process group. A worker that shares it has got Ctrl-C then, and must
not get it from us as well; after `kill -INT <launcher>` it must. The canary is one more process in the group:
it dies of the first kind, and knows nothing of the second.
"""

import os
import resource
import signal
import time
from contextlib import suppress

from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.lifeline import Lifeline
from ddplaunch.supervise.processes import fork_quietly

if TYPE_CHECKING:
    from typing import NoReturn

HEARD = (signal.SIGINT, signal.SIGQUIT)
HIT_SECONDS = 0.2  # for a signal that was sent to the group to reach the canary as well


class Canary:
    def __init__(self, lifeline: Lifeline) -> None:
        strand = lifeline.open_strand()
        self.pid = fork_quietly(lambda: _sit(strand))
        lifeline.tie(strand, self.pid, is_group=False)
        self._is_hit = False

    def is_hit(self) -> bool:
        deadline = time.monotonic() + HIT_SECONDS
        while not self._is_hit and time.monotonic() < deadline:
            self._is_hit = _is_over(self.pid)
            time.sleep(0.001)
        return self._is_hit

    def release(self) -> None:
        if not self._is_hit:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.is_hit()


def _is_over(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def _sit(strand: int | None) -> "NoReturn":
    """Hold the lifeline, and wait for a signal."""
    try:
        signal.set_wakeup_fd(-1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # SIGQUIT would dump one
        if strand is not None:
            os.dup2(strand, 0)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))
        for signum in HEARD:
            signal.signal(signum, signal.SIG_DFL)  # no Python between the signal and the end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        while True:
            signal.pause()
    finally:
        os._exit(0)
