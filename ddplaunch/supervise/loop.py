"""The event loop: pidfds, pipes, signals and one deadline in; what step() decides, out."""

import os
import selectors
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ddplaunch.output.console import Console
from ddplaunch.output.sink import HIGH_WATER, LOW_WATER, Sink
from ddplaunch.output.streams import Stream, make_prefix
from ddplaunch.plan.model import LaunchPlan
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Worker
from ddplaunch.supervise.state import (
    Action,
    Announce,
    ClearGroup,
    DeadlinePassed,
    Event,
    KillWorkers,
    Phase,
    SignalReceived,
    SignalWorkers,
    State,
    WorkerExited,
    step,
)

READ_BYTES = 1 << 16
DRAIN_BYTES = 1 << 20  # a grandchild that keeps writing must not keep a finished worker's pipe open


class Supervisor:
    """Watches started workers until all are gone, or given up."""

    def __init__(self, plan: LaunchPlan, signals: SignalPipe, console: Console, grace_seconds: float) -> None:
        self.workers: dict[int, Worker] = {}
        self.streams: dict[int, tuple[Stream, ...]] = {}
        self._plan = plan
        self._signals = signals
        self.console = console
        self._selector = selectors.DefaultSelector()
        self._paused: set[Stream] = set()
        self._open: set[Stream] = set()
        self._pidfds: dict[int, int] = {}
        self._without_pidfd: set[int] = set()  # macOS, old kernels: SIGCHLD wakes us, and they are asked
        self._flushing: set[Sink] = set()
        self.state = State(alive=frozenset(), grace_seconds=grace_seconds)
        self._selector.register(signals.fd, selectors.EVENT_READ, signals)

    def add(self, worker: Worker) -> None:
        """Watch a worker that has just been started."""
        rank = worker.spec.rank
        self.workers[rank] = worker
        self.state = self.state._replace(alive=self.state.alive | {rank})
        self.streams[rank] = tuple(self._open_streams(worker))
        for stream in self.streams[rank]:
            self._selector.register(stream.fd, selectors.EVENT_READ, stream)
            self._open.add(stream)
        pidfd = _open_pidfd(worker.process.pid)
        if pidfd is None:
            self._without_pidfd.add(rank)
        else:
            self._pidfds[rank] = pidfd
            self._selector.register(pidfd, selectors.EVENT_READ, worker)

    def run(self) -> State:
        """Until every worker is gone; then nothing of theirs is left unread."""
        while self.state.phase is not Phase.OVER:
            for event in self._wait():
                self._handle(event)
        return self.state

    def last_lines(self, rank: int) -> tuple[list[str], list[str]]:
        """(stderr, stdout) of a worker, as far as they came through us."""
        streams = self.streams[rank]
        return (streams[0].tail.lines(), streams[1].tail.lines()) if streams else ([], [])

    def flush(self, seconds: float | None) -> None:
        """Give readers of our output the time to take the rest; a signal ends the wait."""
        deadline = None if seconds is None else time.monotonic() + seconds
        self._balance()
        while self._flushing:
            timeout = None if deadline is None else deadline - time.monotonic()
            if timeout is not None and timeout <= 0:
                return
            for key, _ in self._selector.select(timeout):
                if isinstance(key.data, SignalPipe) and key.data.read():
                    return
                if isinstance(key.data, Sink):
                    key.data.flush()
            self._balance()

    def stop_now(self) -> None:
        """Something went wrong with the launcher itself: nobody is left behind."""
        self._kill(self.state.alive)
        for rank in tuple(self.state.alive):
            self.workers[rank].process.wait()
            self._forget(rank)

    def close(self) -> None:
        for rank in tuple(self._pidfds):
            self._forget(rank)
        for stream in tuple(self._open):
            self._close_stream(stream)
        self._selector.close()

    def _handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event)
        for action in actions:
            self._perform(action)
        if isinstance(event, WorkerExited):
            self._reap(event)

    def _perform(self, action: Action) -> None:
        match action:
            case SignalWorkers(ranks=ranks, signum=signum):
                for rank in ranks:
                    _send(self.workers[rank].process.pid, signum)
            case KillWorkers(ranks=ranks):
                self._kill(ranks)
            case ClearGroup(rank=rank):
                self._kill([rank])
            case Announce():
                self._announce(action)

    def _kill(self, ranks: Iterable[int]) -> None:
        """SIGKILL whole groups. The ids are still ours: nobody has been reaped yet."""
        for rank in ranks:
            worker = self.workers[rank]
            _send(worker.process.pid, signal.SIGKILL)
            if worker.leads_group:
                _send_group(worker.process.pid, signal.SIGKILL)

    def _announce(self, news: Announce) -> None:
        from ddplaunch.report.words import describe_wait

        self.console.err.write(f"ddplaunch: {describe_wait(*news)}\n".encode())

    # --- waiting -----------------------------------------------------------------------------------

    def _wait(self) -> Iterator[Event]:
        """Sleep until something happens, move output, and tell what concerns supervision."""
        deadline = self.state.deadline
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        exited: list[Worker] = []
        received: list[int] = []
        for key, mask in self._selector.select(timeout):
            match key.data:
                case Stream() as stream:
                    self._read(stream)
                case Worker() as worker:
                    exited.append(worker)
                case SignalPipe() as pipe:
                    received += pipe.read()
                case Sink() as sink if mask:
                    sink.flush()
        now = time.monotonic()
        for signum in received:
            yield SignalReceived(signum, now)
        exited += [self.workers[rank] for rank in sorted(self._without_pidfd)]
        for worker in exited:
            returncode = _peek_returncode(worker.process.pid)
            if returncode is not None:
                yield WorkerExited(worker.spec.rank, returncode, now)
        if deadline is not None and now >= deadline:
            yield DeadlinePassed(now)
        self._balance()

    def _reap(self, event: WorkerExited) -> None:
        """Take the last output, then let the kernel forget the worker."""
        worker = self.workers[event.rank]
        for stream in self.streams[event.rank]:
            self._drain(stream)
            stream.finish()
        os.waitpid(worker.process.pid, 0)
        worker.process.returncode = event.returncode
        self._forget(event.rank)

    def _forget(self, rank: int) -> None:
        self._without_pidfd.discard(rank)
        pidfd = self._pidfds.pop(rank, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

    # --- output ------------------------------------------------------------------------------------

    def _open_streams(self, worker: Worker) -> Iterator[Stream]:
        console, rank = self.console, worker.spec.rank
        shown = worker.spec.output == "prefix"
        world_size = self._plan.world_size
        if worker.stderr is not None:  # first, so that the report finds it first
            prefix = make_prefix(rank, world_size, console.colour_err)
            yield Stream(worker.stderr, console.err if shown else None, prefix)
        if worker.stdout is not None:
            prefix = make_prefix(rank, world_size, console.colour_out)
            yield Stream(worker.stdout, console.out if shown else None, prefix)

    def _read(self, stream: Stream) -> None:
        try:
            chunk = os.read(stream.fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close_stream(stream)
            return
        stream.feed(chunk)
        if stream.sink is not None and stream.sink.closed:
            # The reader of our stdout went away. The worker gets what it would get without us: EPIPE.
            self._close_stream(stream)

    def _drain(self, stream: Stream) -> None:
        """Take what is there and close: a grandchild may hold the other end for ever."""
        taken = 0
        while stream in self._open and taken < DRAIN_BYTES:
            try:
                chunk = os.read(stream.fd, READ_BYTES)
            except BlockingIOError:
                break
            if not chunk:
                break
            taken += len(chunk)
            stream.feed(chunk)
        self._close_stream(stream)

    def _close_stream(self, stream: Stream) -> None:
        if stream not in self._open:
            return
        self._open.discard(stream)
        if stream in self._paused:
            self._paused.discard(stream)
        else:
            self._selector.unregister(stream.fd)
        os.close(stream.fd)

    def _balance(self) -> None:
        """A reader that is slower than the workers slows the workers, not the supervision."""
        for sink in self.console.sinks:
            waits = sink.backlog > 0
            if waits and sink not in self._flushing:
                self._selector.register(sink.fd, selectors.EVENT_WRITE, sink)
                self._flushing.add(sink)
            elif not waits and sink in self._flushing:
                self._selector.unregister(sink.fd)
                self._flushing.discard(sink)
            if sink.backlog > HIGH_WATER:
                self._pause(sink)
        if self._paused:
            self._resume()

    def _pause(self, sink: Sink) -> None:
        for stream in self._open - self._paused:
            if stream.sink is sink:
                self._selector.unregister(stream.fd)
                self._paused.add(stream)

    def _resume(self) -> None:
        for stream in tuple(self._paused):
            if stream.sink is None or stream.sink.backlog < LOW_WATER:
                self._selector.register(stream.fd, selectors.EVENT_READ, stream)
                self._paused.discard(stream)


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _peek_returncode(pid: int) -> int | None:
    """The exit of a child that stays unreaped, so that its process group id cannot be reused."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _send(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def _send_group(pgid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
        os.killpg(pgid, signum)
