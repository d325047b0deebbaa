"""The launcher's own stdout and stderr, written to without ever waiting for a reader."""

import os
import stat
from collections import deque
from collections.abc import Callable

HIGH_WATER = 1 << 18  # stop reading from workers when this much waits to be written
LOW_WATER = 1 << 16


class Sink:
    """A destination that is never waited for: what it does not take at once is kept until it does."""

    def __init__(self, fd: int) -> None:
        self.fd, self._write = _open_without_blocking(fd)
        self._waiting: deque[bytes] = deque()
        self.backlog = 0
        self.gone = False  # nobody reads it any more
        self.error = ""  # why bytes were dropped, if any were

    def write(self, data: bytes) -> None:
        if self.gone or not data:
            return
        if not self._waiting:
            data = data[self._write_some(data) :]
        if data and not self.gone:
            self._waiting.append(data)
            self.backlog += len(data)

    def flush(self) -> None:
        """Write as much as the reader takes now."""
        while self._waiting and not self.gone:
            block = self._waiting[0]
            written = self._write_some(block)
            if self.gone:
                return
            self.backlog -= written
            if written < len(block):
                self._waiting[0] = block[written:]
                return
            self._waiting.popleft()

    def _write_some(self, data: bytes) -> int:
        """How much of `data` is dealt with: written, or impossible to write."""
        try:
            return self._write(self.fd, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            self.gone = True
            self._waiting.clear()
            self.backlog = 0
        except OSError as error:
            # A full disk, a closed descriptor, a terminal that was hung up: training goes on without it.
            self.error = (error.strerror or str(error)).lower()
        return len(data)


def _open_without_blocking(fd: int) -> tuple[int, Callable[[int, bytes], int]]:
    """A descriptor for the same place, and how to write to it without waiting for a reader.

    O_NONBLOCK belongs to the open file, which we share with the shell and with workers that inherit it:
    opening a pipe or terminal anew through /proc gives a flag of our own. A socket cannot be opened anew,
    but takes the flag per call. A regular file has no reader to wait for, and must keep its shared offset.
    """
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return fd, os.write
    if stat.S_ISSOCK(mode):
        return fd, _send_at_once
    if stat.S_ISREG(mode):
        return fd, _write_whole
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for path in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
        try:
            return os.open(path, flags), os.write
        except OSError:  # another user's terminal, no /proc
            continue
    return fd, _write_whole


def _write_whole(fd: int, data: bytes) -> int:
    """write(2) may stop early, as on a disk that fills up; the next call then says why."""
    written = 0
    while written < len(data):
        written += os.write(fd, data[written:])
    return written


def _send_at_once(fd: int, data: bytes) -> int:
    import socket

    with socket.socket(fileno=os.dup(fd)) as sender:
        return sender.send(data, socket.MSG_DONTWAIT)
