"""Starting one worker: as a program, unless somebody knows a faster way."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

from ddplaunch.errors import EXIT_PREFLIGHT, LaunchError, Problem
from ddplaunch.plan.model import WorkerSpec
from ddplaunch.record import Record
from ddplaunch.supervise.lifeline import Lifeline
from ddplaunch.supervise.program import Ends, hide_descriptors, start_program


class Prepared(Record):
    """A worker that only has to be started: environment, descriptors, our ends of its output."""

    spec: WorkerSpec
    env: Mapping[str, str]
    ends: Ends
    stdout: int | None
    stderr: int | None
    leads_session: bool

    def close(self) -> None:
        """What is the worker's: it has its own of them, or will never need them."""
        _close(self.ends.stdout, self.ends.stderr)

    def give_up(self) -> None:
        _close(self.stdout, self.stderr)


# How a process for a worker comes about: its pid. An OSError or a ValueError says why there is none.
Start = Callable[[Prepared], int]


class Starter:
    """Starts the workers of a run as programs; a subclass knows another way."""

    pid: int | None = None  # of a process that it needs for that
    came_with_children: bool | None = None  # whether the launcher did, if this one has made it some since
    spent_seconds: float = 0.0  # on getting ready

    def __init__(self) -> None:
        self._is_hidden = hide_descriptors()

    @contextmanager
    def starting(self) -> "Iterator[Start]":
        """A way to start the workers of an attempt; all of them are there when the block is over."""
        yield self._start

    def _start(self, worker: Prepared) -> int:
        spec = worker.spec
        with nullcontext() if spec.cpus is None else _bound_to(spec.cpus):
            return start_program(spec.argv, worker.env, worker.ends, worker.leads_session, self._is_hidden)


class Worker(Record):
    """A started worker: its pid, and our ends of its output (None where it is inherited)."""

    spec: WorkerSpec
    pid: int
    stdout: int | None
    stderr: int | None
    leads_group: bool
    started_at: float


def prepare_worker(spec: WorkerSpec, environ: Mapping[str, str], lifeline: Lifeline, null: int) -> Prepared:
    """Whatever does not need the process. All workers are prepared before the first is started: later, every
    step would find the processor's caches full of workers that boot, and take five times as long."""
    out_read = out_write = err_read = err_write = None
    try:
        if spec.output != "inherit":
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            for read in (out_read, err_read):
                os.set_blocking(read, False)  # ours; the worker's end blocks, as a program expects
        strand = lifeline.open_strand()
    except OSError as error:
        _close(out_read, out_write, err_read, err_write)
        raise LaunchError(_spawn_problem(spec, error)) from error
    ends = Ends(None if spec.interactive else null, out_write, err_write, strand)
    # A worker that reads from the terminal has to stay in the terminal's session.
    leads_session = not (spec.interactive and is_terminal(0))
    return Prepared(spec, {**environ, **spec.env}, ends, out_read, err_read, leads_session)


def spawn_worker(worker: Prepared, lifeline: Lifeline, started_at: float, start: Start) -> Worker:
    """Start it, leading a session of its own unless it owns the terminal, and tied to our life."""
    try:
        pid = start(worker)
    except (OSError, ValueError) as error:
        raise LaunchError(_spawn_problem(worker.spec, error)) from error
    lifeline.tie(worker.ends.kept, pid, is_group=worker.leads_session)
    return Worker(worker.spec, pid, worker.stdout, worker.stderr, worker.leads_session, started_at)


def _close(*ends: int | None) -> None:
    for end in ends:
        if end is not None:
            os.close(end)


@contextmanager
def _bound_to(cpus: tuple[int, ...]) -> Iterator[None]:
    """A child inherits the CPUs its parent may run on: narrow our own for a moment."""
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
