"""The event loop: pidfds, pipes, signals and one deadline in; what step() decides, out."""

import os
import selectors
import signal
import time
from collections.abc import Iterable, Iterator

from ddplaunch.output.console import Console
from ddplaunch.output.pump import Pump
from ddplaunch.output.sink import Sink
from ddplaunch.output.streams import Stream
from ddplaunch.supervise.processes import kill_group, open_pidfd, peek_returncode, reap, send_signal
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


class Supervisor:
    """Watches started workers until all are gone, or given up."""

    def __init__(self, signals: SignalPipe, console: Console, world_size: int, grace_seconds: float) -> None:
        self.workers: dict[int, Worker] = {}
        self.state = State(alive=frozenset(), grace_seconds=grace_seconds)
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals.fd, selectors.EVENT_READ, signals)
        self.pump = Pump(self._selector, console, world_size)
        self._pidfds: dict[int, int] = {}
        self._without_pidfd: set[int] = set()  # SIGCHLD wakes us, and they are asked

    def add(self, worker: Worker) -> None:
        """Watch a worker that has just been started."""
        rank = worker.spec.rank
        self.workers[rank] = worker
        self.state = self.state._replace(alive=self.state.alive | {rank})
        self.pump.add(rank, worker.stdout, worker.stderr, worker.spec.output == "prefix")
        pidfd = open_pidfd(worker.process.pid)
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

    def say(self, text: str) -> None:
        """Our own words, in order with the workers' lines on stderr."""
        self.pump.console.err.write(text.encode("utf-8", "backslashreplace"))

    def flush(self, deadline: float | None) -> None:
        """Give readers of our output the time to take the rest; a signal ends the wait."""
        self.pump.balance()
        while self.pump.is_waiting:
            timeout = None if deadline is None else deadline - time.monotonic()
            if timeout is not None and timeout <= 0:
                return
            for key, _ in self._selector.select(timeout):
                if isinstance(key.data, SignalPipe) and key.data.read():
                    return
                if isinstance(key.data, Sink):
                    key.data.flush()
            self.pump.balance()

    def stop_now(self) -> None:
        """Something went wrong with the launcher itself: nobody is left behind."""
        self._kill(self.state.alive)
        for rank in tuple(self.state.alive):
            reap(self.workers[rank].process.pid)
            self._forget(rank)

    def close(self) -> None:
        for rank in tuple(self._pidfds):
            self._forget(rank)
        self.pump.close()
        self._selector.close()

    def _handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event)
        for action in actions:
            self._perform(action)
        if isinstance(event, WorkerExited):
            self._take_leave(event)

    def _perform(self, action: Action) -> None:
        match action:
            case SignalWorkers(ranks=ranks, signum=signum):
                for rank in ranks:
                    send_signal(self.workers[rank].process.pid, signum)
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
            send_signal(worker.process.pid, signal.SIGKILL)
            if worker.leads_group:
                kill_group(worker.process.pid)

    def _announce(self, news: Announce) -> None:
        from ddplaunch.words import describe_wait

        self.say(f"ddplaunch: {describe_wait(*news)}\n")

    def _wait(self) -> Iterator[Event]:
        """Sleep until something happens, move output, and tell what concerns supervision."""
        deadline = self.state.deadline
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        exited: list[Worker] = []
        received: list[int] = []
        for key, _ in self._selector.select(timeout):
            match key.data:
                case Stream() as stream:
                    self.pump.read(stream)
                case Worker() as worker:
                    exited.append(worker)
                case SignalPipe() as pipe:
                    received += pipe.read()
                case Sink() as sink:
                    sink.flush()
        now = time.monotonic()
        for signum in received:
            yield SignalReceived(signum, now)
        exited += [self.workers[rank] for rank in sorted(self._without_pidfd)]
        for worker in exited:
            returncode = peek_returncode(worker.process.pid)
            if returncode is not None:
                yield WorkerExited(worker.spec.rank, returncode, now)
        if deadline is not None and now >= deadline:
            yield DeadlinePassed(now)
        self.pump.balance()

    def _take_leave(self, event: WorkerExited) -> None:
        """Take the last output, then let the kernel forget the worker."""
        worker = self.workers[event.rank]
        self.pump.finish(event.rank)
        reap(worker.process.pid)
        worker.process.returncode = event.returncode  # or Popen would wait for it again, and complain
        self._forget(event.rank)

    def _forget(self, rank: int) -> None:
        self._without_pidfd.discard(rank)
        pidfd = self._pidfds.pop(rank, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
