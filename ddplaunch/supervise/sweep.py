"""Looking through /proc for what a run has started, and ending it."""

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from ddplaunch.supervise.census import ProcessFacts, find_ours
from ddplaunch.supervise.events import Work
from ddplaunch.supervise.processes import open_pidfd

LOOK_SECONDS = 0.02  # between two looks at processes that are about to go
EMPTY_LOOKS = 3

_TICKS = os.sysconf("SC_CLK_TCK")


def probe_processes(marks: tuple[str, ...]) -> list[ProcessFacts]:
    """Every live process that may be looked at; none on systems without /proc.

    `marks` are settings that all processes of the run on this node have in their environment.
    """
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    wanted = {mark.encode() for mark in marks}
    found = (_probe_process(int(name), wanted) for name in names if name.isdigit())
    return [process for process in found if process is not None]


def probe_started(pid: int) -> int | None:
    """When a process started, or None if it is gone."""
    fields = _read_stat(pid)
    return None if fields is None else int(fields[19])


def kill_ours(
    marks: tuple[str, ...],
    launcher: int | None,
    known: Collection[int],
    deadline: float,
    starter: int | None = None,
) -> list[ProcessFacts]:
    """SIGKILL until nothing of the run is left; whoever is left at the deadline is returned.

    A process may fork and leave while we look: only several looks that find nobody are proof.
    """
    empty_looks = 0
    while True:
        ours = find_ours(probe_processes(marks), launcher, known, starter)
        for process in ours:
            _kill(process)
        empty_looks = 0 if ours else empty_looks + 1
        if empty_looks == EMPTY_LOOKS or time.monotonic() > deadline:
            return ours
        time.sleep(LOOK_SECONDS if ours else LOOK_SECONDS / 4)


def await_leaving(look: Callable[[], list[ProcessFacts]], deadline: float) -> list[ProcessFacts]:
    """Who stays after all: a helper may need a moment to see that its worker is over."""
    while (left := look()) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return left


def _kill(process: ProcessFacts) -> None:
    """Through a pidfd: between the look and the blow, the pid may have gone to a stranger.

    Kernels before 5.3 have none, nor have Pythons that were built for them: there a last look has to do.
    """
    pidfd = open_pidfd(process.pid)
    try:
        if probe_started(process.pid) != process.started:
            return
        with suppress(OSError):
            if pidfd is None:
                os.kill(process.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        if pidfd is not None:
            os.close(pidfd)


def _probe_process(pid: int, marks: set[bytes]) -> ProcessFacts | None:
    fields = _read_stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return ProcessFacts(
        pid=pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        work=Work((int(fields[11]) + int(fields[12])) / _TICKS, _probe_moved_bytes(pid)),
        command=_read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "backslashreplace").strip(),
        is_marked=marks <= set(_read(pid, "environ").split(b"\0")),
    )


def _probe_moved_bytes(pid: int) -> int:
    """Through read and write, files or not; what a socket receives is not among it."""
    lines = [line.split() for line in _read(pid, "io").splitlines()]
    return sum(int(words[1]) for words in lines if words[0] in (b"rchar:", b"wchar:"))


def _read_stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on: the name before it may hold spaces and brackets."""
    stat = _read(pid, "stat")
    return stat.rpartition(b")")[2].decode().split() if stat else None


def _read(pid: int, name: str) -> bytes:
    """Empty when the process is gone, or is none of our business."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""
