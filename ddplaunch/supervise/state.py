"""Supervision as a pure function: step(state, event) -> (state, actions). [pure]

An attempt is watched, then stopped, then killed, then over:

    WATCHING --a cause: see below--> STOPPING --grace runs out, or Ctrl-C again--> KILLING
         \\                               \\                                          |
          `---all workers succeed--> OVER <-`------------ all are gone, or given up --'

The cause is the first of: a worker fails, a signal asks for the end, all workers stall, time is up, another
node of the run has one of these.
"""

import signal
from enum import Enum

from ddplaunch.record import Record
from ddplaunch.supervise.events import (
    AbortWorkers,
    Action,
    Announce,
    Cause,
    ClearGroup,
    DeadlinePassed,
    Event,
    KillWorkers,
    ProgressSampled,
    Remark,
    SampleProgress,
    SignalReceived,
    SignalWorkers,
    Stalled,
    StopOrdered,
    SuspendLauncher,
    TimedOut,
    WorkerExited,
)
from ddplaunch.supervise.progress import SAMPLES_PER_STALL, has_progressed, was_suspended

# How long SIGKILL may take before a worker counts as unkillable (it hangs in the kernel).
KILL_SECONDS = 2.0
# How long a worker may take to print its stacks and die of SIGABRT.
ABORT_SECONDS = 5.0
# A worker that takes longer than this to stop is named; then again, less and less often.
PATIENCE_SECONDS = 2.0
# Slurm sends SIGTERM twice within 0.1 s at the time limit.
TERM_WINDOW_SECONDS = 2.0
# Some schedulers signal every process of a job: a worker may die of it before the launcher hears of it.
ALL_WINDOW_SECONDS = 1.0

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Phase(Enum):
    WATCHING = "watching"
    STOPPING = "stopping"
    KILLING = "killing"
    OVER = "over"


class State(Record):
    alive: frozenset[int]
    grace_seconds: float
    begun_at: float = 0.0
    phase: Phase = Phase.WATCHING
    cause: Cause | None = None  # why the attempt ends, unless everybody succeeds
    kill_at: float | None = None  # the end of the grace, or of the patience with SIGKILL
    remind_at: float | None = None  # when to say who is still being waited for
    stopping_since: float = 0.0
    exits: tuple[WorkerExited, ...] = ()  # in the order they were seen
    stopped: frozenset[int] = frozenset()  # ranks that the launcher told to stop
    terminated_at: float | None = None  # the first SIGTERM
    passed_on: frozenset[int] = frozenset()  # signals that workers got through us
    interrupted: SignalReceived | None = None  # somebody wants the end, whatever the cause was
    timeout_at: float | None = None  # the end of the whole run
    stall_seconds: float | None = None
    sample_at: float | None = None  # when to look for progress again
    sample: ProgressSampled | None = None  # the last look
    progress_at: float = 0.0  # when progress was last seen
    is_shared: bool = False  # other nodes belong to the run: only together can they stall, or be suspended
    is_silent: bool = False  # the workers here do not get anywhere
    is_impatient: bool = False  # somebody asked twice

    @property
    def deadline(self) -> float | None:
        """When to look again even if nothing happens."""
        if self.phase is Phase.WATCHING:
            times = (self.timeout_at, self.sample_at)
        else:
            times = (self.kill_at, self.remind_at)
        return min((at for at in times if at is not None), default=None)


def begin(
    ranks: frozenset[int],
    at: float,
    grace_seconds: float,
    stall_seconds: float | None = None,
    timeout_at: float | None = None,
    is_shared: bool = False,
) -> State:
    """All workers have been started."""
    return State(
        alive=ranks,
        grace_seconds=grace_seconds,
        begun_at=at,
        timeout_at=timeout_at,
        stall_seconds=stall_seconds,
        sample_at=None if stall_seconds is None else at,
        progress_at=at,
        is_shared=is_shared,
    )


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """What an event means; never looks at the clock or at a process."""
    match event:
        case WorkerExited():
            return _worker_exited(state, event)
        case SignalReceived(signum=signum) if signum in STOP_SIGNALS:
            return _stop_requested(state, event)
        case SignalReceived(signum=signal.SIGTSTP) if state.is_shared:
            return state, (Remark("Ctrl-Z is ignored: the other nodes would take this one for lost"),)
        case SignalReceived(signum=signal.SIGTSTP):
            return state, (SignalWorkers(state.alive, signal.SIGSTOP), SuspendLauncher())
        case SignalReceived(signum=signum):  # USR1, USR2, CONT, WINCH: the workers' business
            state = state._replace(passed_on=state.passed_on | {signum})
            return state, (SignalWorkers(state.alive, signum, event.from_terminal),)
        case DeadlinePassed(at=at) if state.phase is Phase.WATCHING:
            return _watch_deadline_passed(state, at)
        case DeadlinePassed(at=at):
            return _stop_deadline_passed(state, at)
        case ProgressSampled():
            return _progress_sampled(state, event)
        case StopOrdered():
            return _stop_ordered(state, event)


def _worker_exited(state: State, event: WorkerExited) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(alive=state.alive - {event.rank}, exits=state.exits + (event,))
    if state.phase is Phase.STOPPING and event.at == state.stopping_since:
        # Seen in the same moment as the cause: it was over before it could be asked to stop.
        state = state._replace(stopped=state.stopped - {event.rank})
    actions: tuple[Action, ...] = ()
    if event.returncode != 0 or state.phase is not Phase.WATCHING:
        actions = (ClearGroup(event.rank),)
    if event.returncode != 0 and state.phase is Phase.WATCHING:
        state = _stopping(state, event, state.grace_seconds)
        actions += _ask_to_stop(state, signal.SIGTERM)
    if not state.alive:
        state = _over(state)
    return state, actions


def _stop_requested(state: State, event: SignalReceived) -> tuple[State, tuple[Action, ...]]:
    """The first one stops; an impatient Ctrl-C, or a SIGTERM well after the first, kills."""
    if state.phase is Phase.WATCHING:
        state = _stopping(state, event, state.grace_seconds)
        if event.signum == signal.SIGTERM:
            state = state._replace(terminated_at=event.at)
        announcement = Announce(state.alive, event.signum, state.grace_seconds)
        return state, (*_ask_to_stop(state, event.signum, event.from_terminal), announcement)
    was_interrupted = _is_ctrl_c(state.cause) or _is_ctrl_c(state.interrupted)
    if _is_same_signal(state.cause, event):
        return state._replace(cause=event, terminated_at=event.at), ()
    state = state._replace(interrupted=state.interrupted or event)
    if state.phase is not Phase.STOPPING:
        return state, ()
    if event.signum == signal.SIGINT:
        if was_interrupted:
            return _kill(state._replace(is_impatient=True), event.at)
        left = (state.kill_at or event.at) - event.at
        return state._replace(interrupted=event), (Announce(state.alive, event.signum, left),)
    if event.signum != signal.SIGTERM:
        return state, ()
    if state.terminated_at is None:
        return state._replace(terminated_at=event.at), ()
    if event.at - state.terminated_at < TERM_WINDOW_SECONDS:
        return state, ()
    return _kill(state._replace(is_impatient=True), event.at)


def _stop_ordered(state: State, order: StopOrdered) -> tuple[State, tuple[Action, ...]]:
    """By the same rules as if it had happened here."""
    actions: tuple[Action, ...] = ()
    if state.phase is Phase.WATCHING and order.aborts:
        state = _stopping(state, order, min(state.grace_seconds, ABORT_SECONDS))
        return state, (AbortWorkers(state.alive),)
    if state.phase is Phase.WATCHING:
        state = _stopping(state, order, state.grace_seconds)
        actions = _ask_to_stop(state, order.signum)
        if order.signum == signal.SIGINT:
            actions += (Remark(f"{order.text}: stopping, up to {state.grace_seconds:.0f} s"),)
    if state.phase is Phase.STOPPING and order.kills:
        state, further = _kill(state, order.at)
        actions += further
    return state, actions


def may_be_interrupted(state: State) -> bool:
    """A worker died of a signal that would end the launcher, too: it may be on its way there."""
    cause = state.cause
    return isinstance(cause, WorkerExited) and -cause.returncode in STOP_SIGNALS


def _is_same_signal(cause: Cause | None, event: SignalReceived) -> bool:
    """Whether a worker's death and this are one piece of news: somebody signalled us all."""
    is_death = isinstance(cause, WorkerExited) and cause.returncode == -event.signum
    return is_death and cause is not None and event.at - cause.at < ALL_WINDOW_SECONDS


def _is_ctrl_c(event: object) -> bool:
    return isinstance(event, SignalReceived) and event.signum == signal.SIGINT


def _watch_deadline_passed(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    if state.timeout_at is not None and at >= state.timeout_at:
        state = _stopping(state, TimedOut(at), state.grace_seconds)
        return state, _ask_to_stop(state, signal.SIGTERM)
    if state.sample_at is not None and at >= state.sample_at and state.stall_seconds is not None:
        return state._replace(sample_at=at + state.stall_seconds / SAMPLES_PER_STALL), (SampleProgress(),)
    return state, ()


def _stop_deadline_passed(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    if state.kill_at is not None and at >= state.kill_at:
        if state.phase is Phase.STOPPING:
            return _kill(state, at)
        return _over(state), ()  # unkillable: leave it, and say so
    if state.remind_at is not None and at >= state.remind_at:
        waited = at - state.stopping_since
        left = (state.kill_at or at) - at
        return state._replace(remind_at=at + waited), (Announce(state.alive, None, left),)
    return state, ()


def _progress_sampled(state: State, sample: ProgressSampled) -> tuple[State, tuple[Action, ...]]:
    stall_seconds = state.stall_seconds
    if state.phase is not Phase.WATCHING or stall_seconds is None:
        return state, ()
    if (
        state.sample is None
        or was_suspended(state.sample, sample, stall_seconds)
        or has_progressed(state.sample, sample)
    ):
        state = state._replace(progress_at=sample.at)
    state = state._replace(sample=sample)
    silent_seconds = sample.at - state.progress_at
    state = state._replace(is_silent=silent_seconds >= stall_seconds)
    if not state.is_silent or state.is_shared:
        return state, ()
    state = _stopping(state, Stalled(sample.at, silent_seconds), min(state.grace_seconds, ABORT_SECONDS))
    return state, (AbortWorkers(state.alive),)


def _stopping(state: State, cause: Cause, grace_seconds: float) -> State:
    return state._replace(
        phase=Phase.STOPPING,
        cause=cause,
        kill_at=cause.at + grace_seconds,
        remind_at=cause.at + PATIENCE_SECONDS,
        stopping_since=cause.at,
        stopped=state.alive,
    )


def _ask_to_stop(state: State, signum: int, from_terminal: bool = False) -> tuple[Action, ...]:
    """A worker that was stopped (SIGSTOP, Ctrl-Z) must run to hear it."""
    if not state.alive:
        return ()
    asked = SignalWorkers(state.alive, signum, from_terminal)
    return asked, SignalWorkers(state.alive, signal.SIGCONT)


def _kill(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(phase=Phase.KILLING, kill_at=at + KILL_SECONDS, remind_at=None)
    return state, (KillWorkers(state.alive),)


def _over(state: State) -> State:
    return state._replace(phase=Phase.OVER, kill_at=None, remind_at=None)
