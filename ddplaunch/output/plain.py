"""Plain words on stdout and stderr, before and instead of a run."""

import os
from collections.abc import Iterable

from ddplaunch.errors import EXIT_OUTPUT, LaunchError, Problem


def print_out(text: str) -> None:
    """To stdout, all of it; whoever reads it may be slow or gone."""
    rest = (text + "\n").encode("utf-8", "surrogateescape")
    try:
        while rest:
            rest = rest[_write_some(rest) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise LaunchError(Problem("cannot write to stdout", reason, exit_code=EXIT_OUTPUT)) from error


def _write_some(data: bytes) -> int:
    import select

    try:
        return os.write(1, data)
    except BlockingIOError:  # a parent made it so
        select.select([], [1], [])
        return 0


def say(notices: Iterable[str]) -> None:
    """One line each on stderr; a launcher without stderr goes on all the same."""
    for notice in notices:
        try:
            os.write(2, f"ddplaunch: note: {notice}\n".encode("utf-8", "backslashreplace"))
        except OSError:
            return
