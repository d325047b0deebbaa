"""Starting one worker with subprocess.Popen."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.plan.model import WorkerSpec
from ddplaunch.record import Record
from ddplaunch.supervise.lifeline import Lifeline


class Worker(Record):
    """A started worker: its process, and our ends of its output (None where it is inherited)."""

    spec: WorkerSpec
    process: subprocess.Popen[bytes]
    stdout: int | None
    stderr: int | None
    leads_group: bool
    started_at: float


def spawn_worker(
    spec: WorkerSpec, environ: Mapping[str, str], lifeline: Lifeline, started_at: float
) -> Worker:
    """Start `spec`, leading a session of its own unless it owns the terminal, and tied to our life."""
    # A worker that reads from the terminal has to stay in the terminal's session.
    shares_terminal = spec.interactive and is_terminal(0)
    opened: list[int] = []
    try:
        if spec.output != "inherit":
            for _ in ("stdout", "stderr"):
                opened += os.pipe()
        strand = lifeline.open_strand()
        out_read, out_write, err_read, err_write = opened or (None, None, None, None)
        with _bound_to(spec.cpus):
            process = subprocess.Popen(
                spec.argv,
                env={**environ, **spec.env},
                stdin=None if spec.interactive else subprocess.DEVNULL,
                stdout=out_write,
                stderr=err_write,
                start_new_session=not shares_terminal,
                pass_fds=() if strand is None else (strand,),
            )
    except (OSError, ValueError) as error:
        for end in opened:
            os.close(end)
        raise LaunchError(_spawn_problem(spec, error)) from error
    lifeline.tie(strand, process.pid, is_group=not shares_terminal)
    for write in opened[1::2]:
        os.close(write)
    for read in opened[::2]:
        os.set_blocking(read, False)  # our end; the worker's blocks, as a program expects of its stdout
    return Worker(spec, process, out_read, err_read, not shares_terminal, started_at)


@contextmanager
def _bound_to(cpus: tuple[int, ...] | None) -> Iterator[None]:
    """A child inherits the CPUs its parent may run on: narrow our own for a moment."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _spawn_problem(spec: WorkerSpec, error: OSError | ValueError) -> Problem:
    reason = (getattr(error, "strerror", None) or str(error)).lower()
    return Problem(f"cannot start rank {spec.rank}: {spec.argv[0]}", reason, exit_code=EXIT_PREFLIGHT)


def is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
