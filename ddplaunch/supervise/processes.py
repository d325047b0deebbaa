"""Watching, asking and signalling single processes; everything here survives their being gone."""

import os
import signal
from contextlib import suppress


def open_pidfd(pid: int) -> int | None:
    """Readable when the process is over; None on macOS and on old kernels."""
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


def send_signal(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def kill_group(pgid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        os.killpg(pgid, signal.SIGKILL)
