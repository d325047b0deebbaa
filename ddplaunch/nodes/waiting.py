"""Saying for whom a node waits: in place on a terminal, else a line every few seconds."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from ddplaunch.nodes.roster import REMIND_SECONDS
from ddplaunch.output.lines import fit_to_width

FRAME_SECONDS = 0.1
QUIET_SECONDS = 0.5  # most runs come together within this time
FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

_ERASE = b"\r\x1b[K"


class WaitingLine:
    def __init__(self) -> None:
        self._began_at = time.monotonic()
        self._is_terminal = os.isatty(2) and os.environ.get("TERM") != "dumb"
        self._next_at = self._began_at + (QUIET_SECONDS if self._is_terminal else REMIND_SECONDS)
        self._is_drawn = False

    def __enter__(self) -> "WaitingLine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._erase()

    @property
    def deadline(self) -> float:
        """When show() is wanted again."""
        return self._next_at

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now < self._next_at:
            return
        if self._is_terminal:
            self._next_at = now + FRAME_SECONDS
            self._draw(text, now - self._began_at)
        else:
            self._next_at = now + REMIND_SECONDS
            _write(f"ddplaunch: {text}\n".encode("utf-8", "backslashreplace"))

    def note(self, notes: Iterable[str]) -> None:
        for text in notes:
            self._erase()
            _write(f"ddplaunch: {text}\n".encode("utf-8", "backslashreplace"))

    def _draw(self, text: str, seconds: float) -> None:
        frame = FRAMES[int(seconds / FRAME_SECONDS) % len(FRAMES)]
        line = f"{frame} {text}, {seconds:.0f} s".encode("utf-8", "replace")
        with suppress(OSError):
            line = fit_to_width(line, os.get_terminal_size(2).columns or 80)
        _write(_ERASE + line)
        self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            _write(_ERASE)
            self._is_drawn = False


def _write(data: bytes) -> None:
    """Nobody may read it, or slowly; that is no reason not to wait."""
    with suppress(OSError):
        os.write(2, data)
