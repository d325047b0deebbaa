"""The kernel's own tie between the launcher's life and its workers'.

A pipe that nobody writes to: the launcher holds its only write end. Each worker inherits a read end of its
own, which has the worker's process group as owner, SIGKILL as its signal and O_ASYNC set (fcntl(2),
F_SETOWN and F_SETSIG). When the launcher is gone, however it went, the kernel closes the write end, the
read ends hang up, and every group is killed, in whatever state its worker is.

PR_SET_PDEATHSIG would end the workers alone, not their children, and has to be called between fork and
exec: neither posix_spawn nor a vfork has a place for that, and a fork takes 0.9 ms longer for each worker.
"""

import fcntl
import os
import signal
import sys


class Lifeline:
    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._strands: list[int] = []

    def open_strand(self) -> int | None:
        """A read end for one worker to inherit; None where the system has no such signal, or no /proc."""
        if sys.platform != "linux":
            return None
        try:
            strand = os.open(f"/proc/self/fd/{self._read}", os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, PermissionError):
            return None
        fcntl.fcntl(strand, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(strand, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
        self._strands.append(strand)
        return strand

    def tie(self, strand: int | None, pid: int, is_group: bool) -> None:
        """From here on; before, its signal would reach nobody."""
        if strand is not None and sys.platform == "linux":
            fcntl.fcntl(strand, fcntl.F_SETOWN, -pid if is_group else pid)

    def untie(self) -> None:
        """The workers so far are over; helpers that outlive a success are left in peace."""
        for strand in self._strands:
            fcntl.fcntl(strand, fcntl.F_SETOWN, 0)  # the worker's read end is the same open file
            os.close(strand)
        self._strands.clear()

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
