"""The launcher's own stdout and stderr, written to without ever waiting for a reader."""

import fcntl
import os
import stat
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ddplaunch.output.lines import fit_to_width

HIGH_WATER = 1 << 18  # stop reading from workers when this much waits to be written
LOW_WATER = 1 << 16
PIPE_BYTES = 1 << 20


_ERASE = b"\r\x1b[K"


class Sink:
    """A destination that is never waited for: what it does not take at once is kept until it does."""

    def __init__(self, fd: int, is_terminal: bool | None = None) -> None:
        self.fd, self._write = _open_without_blocking(fd)
        self._waiting: deque[bytes] = deque()
        self.backlog = 0
        self.gone = False  # nobody reads it any more
        self.error = ""  # why bytes were dropped, if any were
        self._is_terminal = os.isatty(fd) if is_terminal is None else is_terminal
        self._bar = b""  # what stands, without a newline, at the bottom of a terminal

    def write(self, data: bytes) -> None:
        """Lines appear above a progress bar, which is drawn again below them."""
        if self._bar and data:
            data = _ERASE + data + (self._bar if data.endswith(b"\n") else b"")
        self._put(data)

    @property
    def width(self) -> int | None:
        """Columns of a terminal; None for anything else."""
        if not self._is_terminal:
            return None
        try:
            return os.get_terminal_size(self.fd).columns or None
        except OSError:
            return None

    @property
    def has_bar(self) -> bool:
        return bool(self._bar)

    def show_bar(self, bar: bytes) -> None:
        """Draw a progress bar in place, or take it away; only a terminal shows any."""
        if not self._is_terminal or self.backlog:  # a terminal that is stopped (Ctrl-S) misses some states
            return
        bar = fit_to_width(bar, self.width or 80) if bar else bar
        if bar != self._bar:
            self._put(_ERASE + bar)
            self._bar = bar

    def _put(self, data: bytes) -> None:
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
    if stat.S_ISFIFO(mode):
        _widen_pipe(fd)
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for path in (f"/proc/self/fd/{fd}", f"/dev/fd/{fd}"):
        try:
            return os.open(path, flags), os.write
        except OSError:  # another user's terminal, no /proc
            continue
    return fd, _write_whole


def _widen_pipe(fd: int) -> None:
    """A full pipe costs two switches between us and its reader: make that one per megabyte, if we may."""
    with suppress(OSError, AttributeError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


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
