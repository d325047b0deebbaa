"""Small files of a run: the summary, the directory for error files."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress

from ddplaunch.record import TYPE_CHECKING

if TYPE_CHECKING:
    from ddplaunch.report.model import ErrorFile

LARGEST_ERROR_FILE = 1 << 24


def write_summary(path: str, text: str) -> None:
    """A reader sees the old file or the whole new one; a pipe or device is written to as it is."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        _write_through(path, text.encode())
    else:
        _write_atomically(path, text)


def _write_through(path: str, data: bytes) -> None:
    """Without waiting for somebody to open the other end of a FIFO."""
    fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        while data:
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def _write_atomically(path: str, text: str) -> None:
    temporary = f"{path}.{os.urandom(4).hex()}.tmp"  # nodes may share a directory, and have the same pid
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def open_run_directory(path: str) -> bool:
    """Make the run's own directory; without one, @record in a script has nowhere to write, no more."""
    try:
        os.mkdir(path, 0o700)
    except OSError:
        return False
    return True


def remove_run_directory(path: str) -> None:
    """Only the files that workers were told to write there; whatever else is in it stays."""
    try:
        for name in os.listdir(path):
            if name.endswith("_error.json"):
                os.unlink(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        pass


def read_error_files(paths: Mapping[int, str]) -> "dict[int, ErrorFile]":
    """What `@record` left in those of the files that exist."""
    from ddplaunch.report.model import ErrorFile

    offset = time.monotonic() - time.time()
    found = {}
    for rank, path in paths.items():
        with suppress(OSError):
            found[rank] = ErrorFile(_read_object(path), os.stat(path).st_mtime + offset)
    return found


def _read_object(path: str) -> dict[str, object] | None:
    """If it is whole: torch does not write it atomically, and a script may write any."""
    import json

    try:
        found = json.loads(read_at_most(path, LARGEST_ERROR_FILE).decode())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_at_most(path: str, size: int) -> bytes:
    """Never waits, whatever stands there."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read(size)
