"""The launcher's own stdout and stderr, written to without ever waiting for a reader."""

import errno
import os
import stat
from collections import deque

HIGH_WATER = 1 << 18  # stop reading from workers when this much waits to be written
LOW_WATER = 1 << 16


class Sink:
    """A destination that is never waited for: what it does not take at once is kept until it does."""

    def __init__(self, fd: int) -> None:
        self._own, self.fd, self.can_block = _open_without_blocking(fd)
        self._waiting: deque[bytes] = deque()
        self.backlog = 0
        self.closed = False  # its reader went away

    def write(self, data: bytes) -> None:
        if self.closed or not data:
            return
        if not self._waiting:
            data = data[self._write_some(data) :]
        if data and not self.closed:
            self._waiting.append(data)
            self.backlog += len(data)

    def flush(self) -> None:
        """Write as much as the reader takes now."""
        while self._waiting and not self.closed:
            block = self._waiting[0]
            written = self._write_some(block)
            self.backlog -= written
            if written < len(block):
                self._waiting[0] = block[written:]
                return
            self._waiting.popleft()

    def close(self) -> None:
        if self._own:
            os.close(self.fd)

    def _write_some(self, data: bytes) -> int:
        try:
            return os.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno == errno.EINTR:
                return 0
            self._give_up()
            return len(data)

    def _give_up(self) -> None:
        self.closed = True
        self._waiting.clear()
        self.backlog = 0


def _open_without_blocking(fd: int) -> tuple[bool, int, bool]:
    """(opened here, file descriptor, can it be waited for?)

    O_NONBLOCK belongs to the open file, which we share with the shell and with workers that inherit it.
    Opening it anew through /proc gives a pipe or terminal a flag of its own. A regular file is never
    waited for, and must keep its shared offset.
    """
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False, fd, False
    if stat.S_ISREG(mode):
        return False, fd, False
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for path in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
        try:
            return True, os.open(path, flags), True
        except OSError:  # a socket, another user's terminal, no /proc
            continue
    return False, fd, False
