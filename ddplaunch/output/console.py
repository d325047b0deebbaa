"""The launcher's two outputs, and whether colour is welcome there."""

import os
from collections.abc import Mapping

from ddplaunch.output.sink import Sink
from ddplaunch.record import Record


class Console(Record):
    """stdout stays stdout, stderr stays stderr."""

    out: Sink
    err: Sink
    colour_out: bool
    colour_err: bool

    @property
    def sinks(self) -> tuple[Sink, Sink]:
        return self.out, self.err


def open_console(environ: Mapping[str, str]) -> Console:
    return Console(Sink(1), Sink(2), wants_colour(1, environ), wants_colour(2, environ))


def wants_colour(fd: int, environ: Mapping[str, str]) -> bool:
    """Only on a terminal, and never against NO_COLOR."""
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    try:
        return os.isatty(fd)
    except OSError:
        return False
