"""Bytes into whole lines, in bulk; nothing is decoded. [pure]"""

from collections.abc import Sequence

from ddplaunch.record import Record

# Of a line without an end this much is held back; then it goes out in pieces.
LONGEST_HELD = 1 << 20


class LastLines(Record):
    """The end of what a worker wrote."""

    stderr: Sequence[str] = ()
    stdout: Sequence[str] = ()


def cut_lines(pending: bytes, chunk: bytes) -> tuple[bytes, bytes]:
    """(complete lines, the beginning of the next one).

    `python -u` writes a print()'s text and its newline separately: a line ends at its newline, not at
    the end of a read.
    """
    end = chunk.rfind(b"\n") + 1
    if not end:
        return b"", pending + chunk
    return pending + chunk[:end], chunk[end:]


def prefix_lines(block: bytes, prefix: bytes) -> bytes:
    """Put `prefix` before every line of a block that ends with a newline."""
    return prefix + block[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


class Tail:
    """The last bytes of a stream, whatever its length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._seen = 0

    def add(self, chunk: bytes) -> None:
        self._seen += len(chunk)
        self._kept += chunk[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def lines(self) -> list[str]:
        """The lines that were kept whole; bytes that are no UTF-8 are shown as escapes."""
        kept = bytes(self._kept[-self._limit :])
        if self._seen > self._limit and b"\n" in kept[:-1]:
            kept = kept[kept.index(b"\n") + 1 :]
        return kept.decode("utf-8", "backslashreplace").splitlines()
