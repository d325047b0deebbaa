"""A file per stream, where torchrun's users look for it: attempt_0/<local rank>/stdout.log."""

import os
from collections.abc import Mapping, Sequence

from ddplaunch.output.logs import LogBook, LogFile, Writer
from ddplaunch.plan.model import WorkerSpec

_STREAMS = ("stdout", "stderr")


class SplitLogBook(LogBook):
    """Only the streams that were chosen; lines with certain words also to a file for all ranks."""

    names_latest = False  # whoever looks for */attempt_0 there would find everything twice

    def __init__(
        self, run_directory: str, attempt: int, filters: tuple[Sequence[str], Sequence[str]]
    ) -> None:
        super().__init__(run_directory, attempt, None)
        self._filters = dict(zip(_STREAMS, filters, strict=True))
        self._copies: dict[str, LogFile] = {}

    def open(self, spec: WorkerSpec) -> Mapping[str, Writer]:
        return {stream: Writers(tuple(self._open_all(spec, stream))) for stream in _STREAMS}

    def _name_error(self, spec: WorkerSpec) -> str:
        return os.path.join(self._directory, str(spec.local_rank), "error.json")

    def _open_all(self, spec: WorkerSpec, stream: str) -> list[Writer]:
        writers: list[Writer] = []
        if stream in spec.kept:
            directory = os.path.join(self._directory, str(spec.local_rank))
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError as error:
                self.complain(directory, error)
            writers.append(LogFile(self, os.path.join(directory, f"{stream}.log"), None))
        words = tuple(word.encode() for word in self._filters[stream])
        if words:
            if stream not in self._copies:
                path = os.path.join(self._directory, f"filtered_{stream}.log")
                self._copies[stream] = LogFile(self, path, None)
            writers.append(Filter(self._copies[stream], words, f"[{spec.rank}] ".encode()))
        return writers


class Writers(Writer):
    """Several as one."""

    def __init__(self, writers: tuple[Writer, ...]) -> None:
        self._writers = writers

    def write(self, block: bytes) -> None:
        for writer in self._writers:
            writer.write(block)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class Filter(Writer):
    """Passes the lines on that have one of the words in them."""

    def __init__(self, log: LogFile, words: tuple[bytes, ...], prefix: bytes) -> None:
        self._log, self._words, self._prefix = log, words, prefix

    def write(self, block: bytes) -> None:
        lines = block.splitlines(keepends=True)
        found = [self._prefix + line for line in lines if any(word in line for word in self._words)]
        self._log.write(b"".join(found))

    def close(self) -> None:
        self._log.close()
