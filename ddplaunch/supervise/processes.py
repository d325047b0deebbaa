"""Watching, asking and signalling single processes; everything here survives their being gone."""

import os
import signal
from collections.abc import Callable, Container
from contextlib import suppress

from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NoReturn

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>


def fork_quietly(child: "Callable[[], NoReturn]") -> int:
    """Fork a process that runs `child`, with every signal blocked until it says otherwise.

    Between fork and the first line of its own it has our handlers and our signal pipe: a Ctrl-C that came
    just then would be told to us twice.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            child()
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def open_pidfd(pid: int) -> int | None:
    """Readable when the process is over; None on macOS, on old kernels, and in Pythons built for such."""
    if not hasattr(signal, "pidfd_send_signal"):
        return None
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def peek_returncode(pid: int) -> int | None:
    """How a child ended, None while it runs. It stays unreaped: its process group id cannot be reused."""
    if not hasattr(os, "waitid"):  # macOS before Python 3.13: asking is reaping
        gone, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if gone else None
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def reap(pid: int) -> None:
    """Let the kernel forget a child that is over."""
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def send_signal(pid: int, signum: int, to_group: bool = False) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-pid if to_group else pid, signum)


def kill_group(pgid: int) -> None:
    # macOS says EPERM for a group of zombies, which is passed over as well.
    send_signal(pgid, signal.SIGKILL, to_group=True)


def has_members(pgid: int) -> bool:
    """Whether anybody in a process group is still running; a leader that nobody has reaped is not."""
    try:
        names = os.listdir("/proc")
    except OSError:  # macOS: nobody says, and nobody is waited for
        return False
    for name in filter(str.isdigit, names):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, _, group = file.read().rpartition(b")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == pgid and state not in (b"Z", b"X"):
            return True
    return False


def has_children() -> bool:
    """Whether this process came with children: a shell that executes us may have had some."""
    if not hasattr(os, "waitid"):
        return True
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def adopt_orphans() -> bool:
    """Become the subreaper of everything started from here on; only Linux can.

    Before the first worker, hence not by way of the ctypes module, which takes four times as long to load.
    """
    try:
        import _ctypes

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        return bool(_ctypes.call_function(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def reap_orphans(ours: Container[int]) -> None:
    """Let the kernel forget adopted children that are over; those in `ours` are somebody else's to reap."""
    if not hasattr(os, "waitid"):
        return
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            if found.si_pid in ours:
                return
            reap(found.si_pid)


def forbid_core_dump(pid: int) -> None:
    """SIGABRT would write the worker's memory to disk, where core dumps are on."""
    import resource

    with suppress(OSError, AttributeError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))


def probe_oom_kills() -> int | None:
    """How often the kernel's out-of-memory killer has struck in our cgroup; None where that is not told."""
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return None
    for _, controllers, path in lines:
        if controllers == "memory":
            return _read_counter(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
        if controllers == "":
            for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                count = _read_counter(f"{root}{path}/memory.events")
                if count is not None:
                    return count
    return None


def _read_counter(path: str) -> int | None:
    try:
        with open(path) as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return None
