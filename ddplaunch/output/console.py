"""The launcher's two outputs, and what they look like to a reader."""

import os
from collections.abc import Mapping

from ddplaunch.output.sink import Sink
from ddplaunch.record import Record


class Console(Record):
    """stdout stays stdout, stderr stays stderr; on one terminal they are one."""

    out: Sink
    err: Sink
    colour_out: bool
    colour_err: bool

    @property
    def sinks(self) -> tuple[Sink, ...]:
        return (self.out,) if self.out is self.err else (self.out, self.err)


def open_console(environ: Mapping[str, str]) -> Console:
    if "OMPI_COMM_WORLD_SIZE" in environ:
        # mpirun gives each process a terminal of its own, and mixes what comes out of them into its stdout.
        return Console(Sink(1, is_terminal=False), Sink(2, is_terminal=False), False, False)
    out = Sink(1)
    err = out if _is_same_terminal() else Sink(2)
    return Console(out, err, wants_colour(1, environ), wants_colour(2, environ))


def wants_colour(fd: int, environ: Mapping[str, str]) -> bool:
    """Only on a terminal, and never against NO_COLOR."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb" and os.isatty(fd)


def _is_same_terminal() -> bool:
    """What is drawn in place must know of everything else that is written there."""
    return os.isatty(1) and os.isatty(2) and os.fstat(1).st_rdev == os.fstat(2).st_rdev
