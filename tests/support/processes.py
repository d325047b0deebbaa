"""Finding and awaiting processes; a test ends only what it started, by pid."""

import os
import time
from collections.abc import Callable

PATIENCE = 60.0  # for a condition on a slow, shared machine


def wait_until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still not: {what}")
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """A zombie is gone: nobody has asked for its exit code yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def find_marked(mark: str) -> list[int]:
    """Live processes that carry `mark` in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if mark.encode() in file.read() and is_alive(int(name)):
                    found.append(int(name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def children_of(pid: int) -> list[int]:
    """Live children, by the parent that every process names."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and is_alive(int(name)):
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == pid:
                found.append(int(name))
    return found


def read_of(pid: int, name: str) -> str:
    """What /proc says of a process; nothing if it is gone, as a child may be before one asks."""
    try:
        with open(f"/proc/{pid}/{name}", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def memory_of(pid: int) -> int:
    """Bytes that are in memory now."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))
