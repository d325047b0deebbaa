"""Starting one worker with subprocess.Popen."""

import os
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.plan.model import WorkerSpec


class Worker(NamedTuple):
    """A started worker: its process, and our ends of its output (None where it is inherited)."""

    spec: WorkerSpec
    process: "subprocess.Popen[bytes]"
    stdout: int | None
    stderr: int | None
    leads_group: bool
    started_at: float


def spawn_worker(spec: WorkerSpec, environ: Mapping[str, str], started_at: float) -> Worker:
    """Start `spec`, leading a session of its own unless it owns the terminal."""
    piped = spec.output != "inherit"
    out_read, out_write = _open_pipe() if piped else (None, None)
    err_read, err_write = _open_pipe() if piped else (None, None)
    # A worker that reads from the terminal has to stay in the terminal's session.
    shares_terminal = spec.interactive and _stdin_is_terminal()
    try:
        process = subprocess.Popen(
            spec.argv,
            env={**environ, **spec.env},
            stdin=None if spec.interactive else subprocess.DEVNULL,
            stdout=out_write,
            stderr=err_write,
            start_new_session=not shares_terminal,
        )
    except (OSError, ValueError) as error:
        for end in (out_read, err_read):
            if end is not None:
                os.close(end)
        reason = getattr(error, "strerror", None) or str(error)
        raise LaunchError(
            Problem(
                f"cannot start rank {spec.rank}: {spec.argv[0]}", reason.lower(), exit_code=EXIT_PREFLIGHT
            )
        ) from error
    finally:
        for end in (out_write, err_write):
            if end is not None:
                os.close(end)
    return Worker(spec, process, out_read, err_read, not shares_terminal, started_at)


def _open_pipe() -> tuple[int, int]:
    """Our end does not block; the worker's does, as a program expects of its stdout."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    return read, write


def _stdin_is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False
