"""A process that ends the run when the launcher cannot: it waits for a pipe to close, and sweeps.

The kernel kills the workers' groups when the launcher dies (lifeline.py); the guardian finds what had left
them. It is forked, not executed: 0.3 ms instead of 10 before the first worker.
"""

import os
import select
import signal
import time
from contextlib import suppress

from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.processes import fork_quietly

if TYPE_CHECKING:
    from typing import NoReturn

BOOT_SECONDS = 2.0
LEAVE_SECONDS = 0.2
SWEEP_SECONDS = 10.0
# A process that was being forked while we looked is there at the next look.
SWEEPS, PAUSE_SECONDS = 4, 0.1


class Guardian:
    """A running guardian, seen from the launcher."""

    def __init__(self, marks: tuple[str, ...], run_directory: str) -> None:
        read, self._write = os.pipe()
        self.pid = fork_quietly(lambda: _guard(read, marks, run_directory))
        os.close(read)

    def dismiss(self) -> None:
        """The launcher ends in good order. Whatever state it is in, SIGKILL ends a guardian."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.forget()

    def forget(self) -> None:
        """It is over; but one that is frozen with its whole cgroup is not waited for."""
        deadline = time.monotonic() + LEAVE_SECONDS
        with suppress(ChildProcessError):
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
                time.sleep(0.001)
        os.close(self._write)


def _guard(read: int, marks: tuple[str, ...], run_directory: str) -> "NoReturn":
    """The guardian's whole life. It holds nothing of the launcher's but the pipe."""
    try:
        _settle(read)
        select.select([0], [], [], BOOT_SECONDS)  # the workers are booting: keep out of their way
        from ddplaunch.output.files import remove_run_directory
        from ddplaunch.supervise.sweep import kill_ours

        os.read(0, 1)  # nobody ever writes: this returns when the launcher is gone
        deadline = time.monotonic() + SWEEP_SECONDS
        for _ in range(SWEEPS):
            kill_ours(marks, launcher=None, known=(os.getpid(),), deadline=deadline)
            time.sleep(PAUSE_SECONDS)
        remove_run_directory(run_directory)
    finally:
        os._exit(0)


def _settle(read: int) -> None:
    """A session of its own, and no descriptor but the pipe, as stdin."""
    os.setsid()
    signal.set_wakeup_fd(-1)  # signals stay blocked: nothing but SIGKILL concerns a guardian
    os.dup2(read, 0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write("ddplaunch-guard")
