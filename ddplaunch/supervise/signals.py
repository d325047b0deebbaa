"""Signals to the launcher become bytes in a pipe: the loop reads them when it is ready to."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_WATCHED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)


class SignalPipe:
    """From construction on, no watched signal ends the launcher.

    Installed before the first worker starts: a signal that comes in between is kept, not lost, and
    cannot leave a worker behind. exec resets the handlers, so workers start with the defaults.
    """

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)
        # No warning when full: one byte of each kind is all that is needed.
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        heard = (*_WATCHED, signal.SIGCHLD)
        for signum in heard:
            if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                continue  # nohup
            signal.signal(signum, _note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)  # a parent may have blocked some

    def read(self) -> list[int]:
        """The signals since the last call, in order, SIGCHLD left out."""
        try:
            return [signum for signum in os.read(self.fd, 4096) if signum != signal.SIGCHLD]
        except BlockingIOError:
            return []

    def close(self) -> None:
        """A signal in the launcher's last moments changes nothing any more.

        Ignored, not just handled: Python takes handlers away at its very end, and `srun --kill-on-bad-exit`
        sends SIGTERM just then.
        """
        signal.set_wakeup_fd(-1)
        for signum in _WATCHED:
            signal.signal(signum, signal.SIG_IGN)
        os.close(self.fd)
        os.close(self._write)


@contextmanager
def catch_signals() -> Iterator[SignalPipe]:
    """From before the first worker until the last word: none can be left behind by a signal."""
    pipe = SignalPipe()
    try:
        yield pipe
    finally:
        pipe.close()


def _note(signum: int, frame: FrameType | None) -> None:
    """Python writes the number to the wakeup descriptor; there is nothing else to do."""
