"""Control groups (v1) that a test makes for itself; they need root."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def can_make(controller: str) -> bool:
    return os.access(ROOT / controller / "cgroup.procs", os.W_OK) and os.geteuid() == 0


@contextmanager
def cgroup(controller: str, name: str) -> Iterator[Path]:
    path = ROOT / controller / name
    path.mkdir()
    try:
        yield path
    finally:
        for _ in range(500):  # its last process may still be on its way out
            with suppress(OSError):
                path.rmdir()
                break
            time.sleep(0.01)


def enter(path: Path, pid: int) -> None:
    (path / "cgroup.procs").write_text(str(pid))
