"""The event loop: pidfds, pipes, signals and one deadline in; what step() decides, out."""

import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from ddplaunch.output.lines import LastLines
from ddplaunch.output.pump import Pump
from ddplaunch.output.sink import Sink
from ddplaunch.output.streams import Stream
from ddplaunch.record import TYPE_CHECKING
from ddplaunch.supervise.ear import Ear
from ddplaunch.supervise.events import (
    AbortWorkers,
    Action,
    Announce,
    ClearGroup,
    DeadlinePassed,
    Event,
    KillWorkers,
    ProgressSampled,
    Remark,
    SampleProgress,
    SignalReceived,
    SignalWorkers,
    SuspendLauncher,
    WorkerExited,
)
from ddplaunch.supervise.guardian import Guardian
from ddplaunch.supervise.processes import (
    forbid_core_dump,
    has_members,
    kill_group,
    open_pidfd,
    peek_returncode,
    reap,
    reap_orphans,
    send_signal,
)
from ddplaunch.supervise.signals import SignalPipe
from ddplaunch.supervise.spawn import Worker
from ddplaunch.supervise.state import STOP_SIGNALS, Phase, State, may_be_interrupted, step
from ddplaunch.supervise.tether import Tether

if TYPE_CHECKING:
    from ddplaunch.nodes.company import Company

# What a terminal sends to everybody in its foreground.
_TERMINAL_SIGNALS = frozenset({signal.SIGINT, signal.SIGQUIT})


GROUP_LOOK_SECONDS = 0.05
ECHO_SECONDS = 0.3  # for a signal that ended a worker to reach the launcher as well
LONGEST_SLEEP = 86_400.0  # epoll counts in milliseconds, in 32 bits


class Supervisor:
    """Watches the workers of one attempt until all are gone, or given up."""

    def __init__(
        self,
        workers: Iterable[Worker],
        state: State,
        signals: SignalPipe,
        make_pump: Callable[[selectors.BaseSelector], Pump],
        tether: Tether,
        signal_scope: str,
        when_all_spoke: Callable[[], None],
        company: "Company | None" = None,
    ) -> None:
        self.workers = {worker.spec.rank: worker for worker in workers}
        self.state = state
        self._tether = tether
        self._signals_groups = signal_scope == "group"
        self._selector = selectors.DefaultSelector()
        self._selector.register(signals.fd, selectors.EVENT_READ, signals)
        self.pump = make_pump(self._selector)
        self._ear = Ear(self._selector, company, self.pump.say)
        self._pidfds: dict[int, int] = {}  # by pid
        self._ending: set[int] = set()  # ranks whose leader is over, but not their group
        self.first_words: Mapping[int, LastLines] = {}  # what all had said when the attempt began to end
        self._all_spoke = False
        self._when_all_spoke = when_all_spoke
        for worker in self.workers.values():
            self.pump.add(worker.spec, worker.stdout, worker.stderr)
            self._watch(worker.pid, worker)
        if tether.guardian is not None:
            self._watch(tether.guardian.pid, tether.guardian)

    def run(self) -> State:
        """Until every worker is gone; then nothing of theirs is left unread."""
        while self.state.phase is not Phase.OVER:
            for event in self._wait():
                self._handle(event)
        if may_be_interrupted(self.state):
            received = self.rest(time.monotonic() + ECHO_SECONDS)
            if received is not None:
                self._handle(received)
        return self.state

    def flush(self, deadline: float | None) -> None:
        """Give readers of our output the time to take the rest; Ctrl-C and the like end the wait."""
        self.pump.balance()
        while self.pump.is_waiting and not self._is_past(deadline):
            if not STOP_SIGNALS.isdisjoint(self._serve_readers(deadline)):
                return

    def rest(
        self, deadline: float | None, is_enough: Callable[[], bool] = lambda: False
    ) -> SignalReceived | None:
        """Nothing to do until then, unless a signal asks for the end."""
        while not self._is_past(deadline) and not is_enough():
            for signum in self._serve_readers(deadline):
                if signum in STOP_SIGNALS:
                    return SignalReceived(signum, time.monotonic())
        return None

    def close(self) -> None:
        for pid in tuple(self._pidfds):
            self._forget(pid)
        self.pump.close()
        self._selector.close()

    # --- acting ------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event)
        for action in actions:
            self._perform(action)
        if isinstance(event, WorkerExited):
            self._take_leave(event)
        if self.state.cause is event:  # nothing has been read since anybody was told to stop
            self.first_words = {rank: self.pump.last_lines(rank) for rank in self.workers}
        self._ear.tell(self.state)

    def _perform(self, action: Action) -> None:
        match action:
            case SignalWorkers():
                self._signal(action)
            case AbortWorkers(ranks=ranks):
                for rank in ranks:
                    forbid_core_dump(self.workers[rank].pid)
                self._signal(SignalWorkers(ranks, signal.SIGABRT))
                self._signal(SignalWorkers(ranks, signal.SIGCONT))
            case KillWorkers(ranks=ranks):
                self._kill(ranks)
            case ClearGroup(rank=rank):
                self._kill([rank])
            case SampleProgress():
                self._handle(self._sample())
            case SuspendLauncher():
                os.kill(os.getpid(), signal.SIGSTOP)
            case Announce():
                self._announce(action)
            case Remark(text=text):
                self.pump.say(f"ddplaunch: {text}\n")

    def _signal(self, order: SignalWorkers) -> None:
        for rank in order.ranks:
            worker = self.workers[rank]
            if order.from_terminal and not worker.leads_group:
                continue  # the terminal has sent it there already
            send_signal(worker.pid, order.signum, self._signals_groups and worker.leads_group)

    def _kill(self, ranks: Iterable[int]) -> None:
        """SIGKILL whole groups. The ids are still ours: nobody has been reaped yet."""
        for rank in ranks:
            worker = self.workers[rank]
            send_signal(worker.pid, signal.SIGKILL)
            if worker.leads_group:
                kill_group(worker.pid)

    def _sample(self) -> ProgressSampled:
        work = self._tether.sample_work([self.workers[rank].pid for rank in self.state.alive])
        now = time.monotonic()
        return ProgressSampled(now, work, self.pump.output_at(now))

    def _announce(self, news: Announce) -> None:
        from ddplaunch.words import describe_wait

        self.pump.say(f"ddplaunch: {describe_wait(*news)}\n")

    # --- waiting -----------------------------------------------------------------------------------

    def _wait(self) -> Iterator[Event]:
        """Sleep until something happens, move output, and tell what concerns supervision."""
        deadline = self.state.deadline
        exited: list[Worker] = []
        received: list[int] = []
        for key, _ in self._selector.select(self._next_timeout()):
            match key.data:
                case Stream() as stream:
                    self.pump.read(stream)
                case Worker() as worker:
                    exited.append(worker)
                case SignalPipe() as pipe:
                    received += pipe.read()
                    reap_orphans(self._pids())
                case Sink() as sink:
                    sink.flush()
                case Guardian():
                    self._replace_guardian()
        now = time.monotonic()
        is_typed = not _TERMINAL_SIGNALS.isdisjoint(received) and self._tether.is_from_terminal()
        for signum in received:
            yield SignalReceived(signum, now, is_typed and signum in _TERMINAL_SIGNALS)
        exited += [self.workers[rank] for rank in self.state.alive if self._lacks_pidfd(rank)]
        for worker in exited:
            returncode = peek_returncode(worker.pid)
            if returncode is not None and not self._leaves_group_behind(worker):
                yield WorkerExited(worker.spec.rank, returncode, now)
        yield from self._ear.hear()  # what happened here comes first
        if deadline is not None and now >= deadline:
            yield DeadlinePassed(now)
        self.pump.balance()
        if not self._all_spoke and not self.pump.silent:
            self._all_spoke = True
            self._when_all_spoke()

    def _next_timeout(self) -> float | None:
        times = [self.state.deadline, self.pump.deadline, self._ear.prick()]
        if self._ending:  # grandchildren do not tell when they leave
            times.append(time.monotonic() + GROUP_LOOK_SECONDS)
        return _timeout(min((at for at in times if at is not None), default=None))

    def _leaves_group_behind(self, worker: Worker) -> bool:
        """With --signal-scope group, a worker that is asked to stop is its whole group: a shell that dies
        at once must not cost the script behind it its grace."""
        rank = worker.spec.rank
        is_asked = self.state.phase is Phase.STOPPING and rank in self.state.stopped
        if not (self._signals_groups and is_asked and has_members(worker.pid)):
            self._ending.discard(rank)
            return False
        self._ending.add(rank)
        self._forget(worker.pid)  # its pidfd stays readable: from here on it is asked
        return True

    def _serve_readers(self, deadline: float | None) -> list[int]:
        """Wait once, for readers of our output and for signals, which are returned."""
        received: list[int] = []
        times = [at for at in (deadline, self._ear.prick()) if at is not None]
        for key, _ in self._selector.select(_timeout(min(times, default=None))):
            if isinstance(key.data, SignalPipe):
                received += key.data.read()
            elif isinstance(key.data, Sink):
                key.data.flush()
            elif isinstance(key.data, Guardian):
                self._replace_guardian()
        self._ear.hear()
        self.pump.balance()
        return received

    def _is_past(self, deadline: float | None) -> bool:
        return deadline is not None and time.monotonic() >= deadline

    def _take_leave(self, event: WorkerExited) -> None:
        """Take the last output, then let the kernel forget the worker."""
        worker = self.workers[event.rank]
        self.pump.finish(event.rank)
        reap(worker.pid)
        self._forget(worker.pid)

    def _watch(self, pid: int, who: Worker | Guardian) -> None:
        pidfd = open_pidfd(pid)
        if pidfd is not None:
            self._pidfds[pid] = pidfd
            self._selector.register(pidfd, selectors.EVENT_READ, who)

    def _forget(self, pid: int) -> None:
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

    def _lacks_pidfd(self, rank: int) -> bool:
        """macOS, old kernels: SIGCHLD wakes us, and the worker is asked."""
        return self.workers[rank].pid not in self._pidfds

    def _pids(self) -> set[int]:
        """Children that are reaped elsewhere."""
        return {self.workers[rank].pid for rank in self.state.alive} | self._tether.own_children

    def _replace_guardian(self) -> None:
        if self._tether.guardian is not None:
            self._forget(self._tether.guardian.pid)
            self._tether.replace_guardian()
        if self._tether.guardian is not None:
            self._watch(self._tether.guardian.pid, self._tether.guardian)


def _timeout(deadline: float | None) -> float | None:
    return None if deadline is None else min(max(0.0, deadline - time.monotonic()), LONGEST_SLEEP)
