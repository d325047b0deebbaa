"""Starting one worker: with subprocess.Popen, unless somebody knows a faster way."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.plan.model import WorkerSpec
from ddplaunch.record import Record
from ddplaunch.supervise.lifeline import Lifeline


class Forked:
    """A worker that was not started as a program; all that is known of it here."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None


class Ends(Record):
    """What a worker gets beside its environment; stdout and stderr are our own where they are None."""

    stdout: int | None
    stderr: int | None
    strand: int | None  # of the lifeline
    leads_session: bool


# How a process for a worker comes about: an OSError or a ValueError says why it does not.
Start = Callable[[WorkerSpec, Ends], "subprocess.Popen[bytes] | Forked"]


class Starter:
    """Starts the workers of a run as programs; a subclass knows another way."""

    pid: int | None = None  # of a process that it needs for that
    came_with_children: bool | None = None  # whether the launcher did, if this one has made it some since
    spent_seconds: float = 0.0  # on getting ready

    @contextmanager
    def starting(self, environ: Mapping[str, str]) -> "Iterator[Start]":
        """A way to start the workers of an attempt; all of them are there when the block is over.

        What they share is encoded and opened once: Popen would do it for each, in a third of its time.
        """
        common, null = _encode(environ), os.open(os.devnull, os.O_RDWR)
        try:
            yield lambda spec, ends: _run_program(spec, {**common, **_encode(spec.env)}, ends, null)
        finally:
            os.close(null)


class Worker(Record):
    """A started worker: its process, and our ends of its output (None where it is inherited)."""

    spec: WorkerSpec
    process: "subprocess.Popen[bytes] | Forked"
    stdout: int | None
    stderr: int | None
    leads_group: bool
    started_at: float


def _encode(environ: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in environ.items()}


def _run_program(
    spec: WorkerSpec, env: Mapping[bytes, bytes], ends: Ends, null: int
) -> "subprocess.Popen[bytes]":
    """The worker's command line as a process of its own."""
    with _bound_to(spec.cpus):
        return subprocess.Popen(
            spec.argv,
            env=env,
            stdin=None if spec.interactive else null,
            stdout=ends.stdout,
            stderr=ends.stderr,
            start_new_session=ends.leads_session,
            pass_fds=() if ends.strand is None else (ends.strand,),
        )


def spawn_worker(spec: WorkerSpec, lifeline: Lifeline, started_at: float, start: Start) -> Worker:
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
        ends = Ends(out_write, err_write, strand, leads_session=not shares_terminal)
        process = start(spec, ends)
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
