"""Supervision as a pure function: step(state, event) -> (state, actions). [pure]

A run is watched, then stopped, then killed, then over:

    WATCHING --a worker fails, or a signal--> STOPPING --grace runs out, or Ctrl-C again--> KILLING
         \\                                        \\                                          |
          `---all workers succeed---> OVER <-------`---------- all are gone, or given up ------'
"""

import signal
from enum import Enum
from typing import NamedTuple

# How long SIGKILL may take before a worker counts as unkillable (it hangs in the kernel).
KILL_SECONDS = 3.0
# A worker that takes longer than this to stop is named; then again, less and less often.
PATIENCE_SECONDS = 2.0
# Slurm sends SIGTERM twice within 0.1 s at the time limit.
TERM_WINDOW_SECONDS = 2.0

STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class Phase(Enum):
    WATCHING = "watching"
    STOPPING = "stopping"
    KILLING = "killing"
    OVER = "over"


class WorkerExited(NamedTuple):
    """`returncode` as subprocess spells it: negative for a signal."""

    rank: int
    returncode: int
    at: float


class SignalReceived(NamedTuple):
    signum: int
    at: float


class DeadlinePassed(NamedTuple):
    at: float


Event = WorkerExited | SignalReceived | DeadlinePassed
Cause = WorkerExited | SignalReceived


class SignalWorkers(NamedTuple):
    """To the workers themselves: a DataLoader child that dies first costs the checkpoint."""

    ranks: frozenset[int]
    signum: int


class KillWorkers(NamedTuple):
    """SIGKILL to the workers and all they started."""

    ranks: frozenset[int]


class ClearGroup(NamedTuple):
    """The worker is gone: kill what is left of its process group, before its id can be reused."""

    rank: int


class Announce(NamedTuple):
    """Tell the user what is being waited for."""

    ranks: frozenset[int]
    signum: int | None  # what asked for the stop; None: still waiting
    kill_in: float  # seconds until SIGKILL


Action = SignalWorkers | KillWorkers | ClearGroup | Announce


class State(NamedTuple):
    alive: frozenset[int]
    grace_seconds: float
    phase: Phase = Phase.WATCHING
    cause: Cause | None = None  # the first failure, or the signal that ended the run
    kill_at: float | None = None  # the end of the grace, or of the patience with SIGKILL
    remind_at: float | None = None  # when to say who is still being waited for
    stopping_since: float = 0.0
    exits: tuple[WorkerExited, ...] = ()  # in the order they were seen
    stopped: frozenset[int] = frozenset()  # ranks that the launcher told to stop
    terminated_at: float | None = None  # the first SIGTERM
    passed_on: frozenset[int] = frozenset()  # signals that workers got through us

    @property
    def deadline(self) -> float | None:
        """When to look again even if nothing happens."""
        times = [at for at in (self.kill_at, self.remind_at) if at is not None]
        return min(times, default=None)


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """What an event means; never looks at the clock or at a process."""
    match event:
        case WorkerExited():
            return _worker_exited(state, event)
        case SignalReceived(signum=signum) if signum in STOP_SIGNALS:
            return _stop_requested(state, event)
        case SignalReceived(signum=signum):  # USR1, USR2, CONT, WINCH: the workers' business
            state = state._replace(passed_on=state.passed_on | {signum})
            return state, (SignalWorkers(state.alive, signum),)
        case DeadlinePassed(at=at):
            return _deadline_passed(state, at)


def _worker_exited(state: State, event: WorkerExited) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(alive=state.alive - {event.rank}, exits=state.exits + (event,))
    actions: tuple[Action, ...] = ()
    if event.returncode != 0 or state.phase is not Phase.WATCHING:
        actions = (ClearGroup(event.rank),)
    if event.returncode != 0 and state.phase is Phase.WATCHING:
        state, stop = _stop(state, event, signal.SIGTERM)
        actions += stop
    if not state.alive:
        state = _over(state)
    return state, actions


def _stop_requested(state: State, event: SignalReceived) -> tuple[State, tuple[Action, ...]]:
    """The first one stops; an impatient Ctrl-C, or a SIGTERM well after the first, kills."""
    if state.phase is Phase.WATCHING:
        state, actions = _stop(state, event, event.signum)
        return state, (*actions, Announce(state.alive, event.signum, state.grace_seconds))
    if state.phase is not Phase.STOPPING:
        return state, ()
    if event.signum == signal.SIGINT:
        return _kill(state, event.at)
    if event.signum != signal.SIGTERM:
        return state, ()
    if state.terminated_at is None:
        return state._replace(terminated_at=event.at), ()
    if event.at - state.terminated_at < TERM_WINDOW_SECONDS:
        return state, ()
    return _kill(state, event.at)


def _deadline_passed(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    if state.kill_at is not None and at >= state.kill_at:
        if state.phase is Phase.STOPPING:
            return _kill(state, at)
        return _over(state), ()  # unkillable: leave it, and say so
    if state.remind_at is not None and at >= state.remind_at:
        waited = at - state.stopping_since
        left = (state.kill_at or at) - at
        return state._replace(remind_at=at + waited), (Announce(state.alive, None, left),)
    return state, ()


def _stop(state: State, cause: Cause, signum: int) -> tuple[State, tuple[Action, ...]]:
    is_term = isinstance(cause, SignalReceived) and cause.signum == signal.SIGTERM
    state = state._replace(
        phase=Phase.STOPPING,
        cause=cause,
        kill_at=cause.at + state.grace_seconds,
        remind_at=cause.at + PATIENCE_SECONDS,
        stopping_since=cause.at,
        stopped=state.alive,
        terminated_at=cause.at if is_term else None,
    )
    return state, ((SignalWorkers(state.alive, signum),) if state.alive else ())


def _kill(state: State, at: float) -> tuple[State, tuple[Action, ...]]:
    state = state._replace(phase=Phase.KILLING, kill_at=at + KILL_SECONDS, remind_at=None)
    return state, (KillWorkers(state.alive),)


def _over(state: State) -> State:
    return state._replace(phase=Phase.OVER, kill_at=None, remind_at=None)
