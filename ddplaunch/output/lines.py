"""Bytes into whole lines, in bulk; nothing is decoded. [pure]"""

from collections.abc import Sequence

from ddplaunch.record import Record


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


def settle_bars(text: bytes) -> bytes:
    """Every line's last state: a progress bar returns to the line's beginning and writes over it.

    A carriage return that ends a line or a state is left: text of DOS, print(..., end="\\r").
    """
    import re

    return re.sub(rb"[^\n]*\r(?=[^\r\n])", b"", text)


def prefix_lines(block: bytes, prefix: bytes) -> bytes:
    """Put `prefix` before every line of a block that ends with a newline."""
    if not prefix:
        return block
    return prefix + block[:-1].replace(b"\n", b"\n" + prefix) + b"\n"


def fit_to_width(line: bytes, columns: int) -> bytes:
    """As much of a line as a terminal shows without a second row; escape codes take no room."""
    import re

    if len(line) < columns:
        return line
    shown, room = [], columns - 1
    for part in re.split(r"(\x1b\[[0-9;]*[A-Za-z])", line.decode("utf-8", "replace")):
        is_code = part.startswith("\x1b[")
        shown.append(part if is_code else part[:room])
        room -= 0 if is_code else min(room, len(part))
    return "".join(shown).encode()


def cut_at_most(block: bytes, room: int) -> int:
    """How much of a block of lines fits: whole lines only, and 0 when not even the first one does."""
    return len(block) if len(block) <= room else block.rfind(b"\n", 0, max(room, 0)) + 1


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
        text = kept.decode("utf-8", "backslashreplace").removesuffix("\n")
        return [line.removesuffix("\r") for line in text.split("\n")] if text else []
