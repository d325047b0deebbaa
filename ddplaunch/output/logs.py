"""What every rank wrote, on disk: DIR/<run-id>/attempt_0/rank_3.log. A log never stops training."""

import os
from collections.abc import Mapping

from ddplaunch.output.files import LARGEST_ERROR_FILE, read_at_most
from ddplaunch.output.lines import cut_at_most
from ddplaunch.plan.model import WorkerSpec


class LogBook:
    """The log files of one attempt."""

    names_latest = True  # DIR/latest is this run

    def __init__(self, run_directory: str, attempt: int, max_bytes: int | None) -> None:
        self.complaint = ""  # the first thing that went wrong, in words
        self._directory = os.path.join(run_directory, f"attempt_{attempt}")
        self._max_bytes = max_bytes
        try:
            os.makedirs(self._directory, exist_ok=True)
            if self.names_latest:
                _point_latest_to(run_directory)
        except OSError as error:
            self.complain(self._directory, error)

    def open(self, spec: WorkerSpec) -> "Mapping[str, Writer]":
        """By stream; here both have the same file."""
        log = LogFile(self, os.path.join(self._directory, f"rank_{spec.rank}.log"), self._max_bytes)
        return {"stdout": log, "stderr": log}

    def keep_error(self, spec: WorkerSpec, path: str) -> None:
        """What `@record` in a worker left there, beside its log."""
        if not os.path.exists(path):
            return
        kept = self._name_error(spec)
        try:
            error = read_at_most(path, LARGEST_ERROR_FILE)
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            with open(kept, "wb") as file:
                file.write(error)
        except OSError as reason:
            self.complain(kept, reason)

    def _name_error(self, spec: WorkerSpec) -> str:
        return os.path.join(self._directory, f"rank_{spec.rank}_error.json")

    def complain(self, path: str, error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        self.complaint = self.complaint or f"cannot write {path}: {reason}; training goes on"


class Writer:
    """Takes whole lines, or pieces of a very long one."""

    def write(self, block: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class LogFile(Writer):
    """A rank's own file, stdout and stderr in the order they came. What cannot be written is dropped."""

    def __init__(self, book: LogBook, path: str, max_bytes: int | None) -> None:
        self._book, self._path, self._max_bytes = book, path, max_bytes
        self._fd: int | None = None
        self._size = 0
        self._is_torn = False  # a write failed half-way: the next line begins a new one
        self._open()

    def write(self, block: bytes) -> None:
        if self._is_torn:
            block = b"\n" + block
        while block and self._max_bytes is not None and self._size + len(block) > self._max_bytes:
            end = cut_at_most(block, self._max_bytes - self._size)
            if not end and not self._size:  # a line that is longer than a file: it has one of its own
                end = block.find(b"\n") + 1 or len(block)
            self._write(block[:end])
            block = block[end:]
            self._rotate()
        self._write(block)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write(self, block: bytes) -> None:
        if self._fd is None or not block:
            return
        try:
            written = os.write(self._fd, block)
            while written < len(block):
                written += os.write(self._fd, block[written:])
            self._size += len(block)
            self._is_torn = False
        except OSError as error:  # a full disk may have room again later
            self._is_torn = True
            self._book.complain(self._path, error)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self._fd = os.open(self._path, flags, 0o666)
        except OSError as error:
            self._book.complain(self._path, error)

    def _rotate(self) -> None:
        """rank_3.log becomes rank_3.log.1; what was .1 is gone."""
        if self._fd is None:
            return
        self.close()
        try:
            os.replace(self._path, self._path + ".1")
        except OSError as error:
            self._book.complain(self._path, error)
        self._size = 0
        self._open()


def _point_latest_to(run_directory: str) -> None:
    """DIR/latest is always the newest run: the link is replaced, never absent."""
    parent, run_id = os.path.split(run_directory)
    link = os.path.join(parent, "latest")
    temporary = f"{link}.{run_id}.{os.uname().nodename}.{os.getpid()}"  # other nodes may do the same
    os.symlink(run_id, temporary)
    os.replace(temporary, link)
