"""Event histories: what supervision decides, without any process."""

import signal

from hypothesis import given
from hypothesis import strategies as st

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
    Stalled,
    SuspendLauncher,
    TimedOut,
    Work,
    WorkerExited,
)
from ddplaunch.supervise.state import (
    ABORT_SECONDS,
    KILL_SECONDS,
    Phase,
    State,
    begin,
    may_be_interrupted,
    step,
)

THREE = State(alive=frozenset({0, 1, 2}), grace_seconds=30)
INT, TERM, HUP, USR1 = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1
CONT = signal.SIGCONT


def test_a_signal_to_worker_and_launcher_alike_is_an_interruption() -> None:
    """Slurm may signal every process of a job: a worker dies of it before the launcher hears of it."""
    died, told = WorkerExited(1, -TERM, 10.0), SignalReceived(TERM, 10.2)
    state, _ = replay(THREE, died, told)
    assert (state.cause, state.phase) == (told, Phase.STOPPING)
    for late in (SignalReceived(TERM, 12.0), SignalReceived(INT, 10.2)):
        state, _ = replay(THREE, died, late)
        assert (state.cause, state.interrupted) == (died, late)
    alone = State(alive=frozenset({1}), grace_seconds=30)
    state, actions = replay(alone, died, told)
    assert (state.cause, state.phase, actions) == (told, Phase.OVER, [ClearGroup(1)])


def test_only_a_death_by_a_stop_signal_may_be_an_interruption() -> None:
    for code, expected in ((-TERM, True), (-INT, True), (-signal.SIGKILL, False), (1, False), (15, False)):
        assert may_be_interrupted(replay(THREE, WorkerExited(1, code, 1.0))[0]) is expected


def replay(state: State, *events: Event) -> tuple[State, list[Action]]:
    happened: list[Action] = []
    for event in events:
        state, actions = step(state, event)
        happened += actions
    return state, happened


def test_all_succeed() -> None:
    state, actions = replay(THREE, *(WorkerExited(rank, 0, 1.0) for rank in range(3)))
    assert (state.phase, state.cause, actions) == (Phase.OVER, None, [])


def test_the_first_failure_stops_the_rest() -> None:
    first = WorkerExited(2, 1, 5.0)
    state, actions = replay(THREE, first)
    assert (state.phase, state.cause, state.kill_at) == (Phase.STOPPING, first, 35.0)
    others = frozenset({0, 1})
    assert actions == [ClearGroup(2), SignalWorkers(others, TERM), SignalWorkers(others, CONT)]
    assert state.stopped == {0, 1}


def test_only_the_first_failure_is_the_cause() -> None:
    first = WorkerExited(2, 1, 5.0)
    state, actions = replay(THREE, first, WorkerExited(0, -15, 5.1), WorkerExited(1, 0, 5.2))
    assert (state.cause, state.phase) == (first, Phase.OVER)
    assert actions[3:] == [ClearGroup(0), ClearGroup(1)]
    assert [exit.rank for exit in state.exits] == [2, 0, 1]


def test_who_was_over_before_it_could_be_asked_was_not_stopped() -> None:
    state, _ = replay(THREE, WorkerExited(2, 7, 5.0), WorkerExited(0, 7, 5.0), WorkerExited(1, 1, 5.1))
    assert set(state.stopped) == {1}


def test_grace_runs_out() -> None:
    state, actions = replay(THREE, WorkerExited(2, 1, 5.0), DeadlinePassed(35.0))
    assert (state.phase, state.deadline) == (Phase.KILLING, 35.0 + KILL_SECONDS)
    assert actions[-1] == KillWorkers(frozenset({0, 1}))


def test_an_unkillable_worker_is_given_up() -> None:
    state, _ = replay(THREE, WorkerExited(2, 1, 5.0), DeadlinePassed(35.0), DeadlinePassed(38.0))
    assert (state.phase, state.alive) == (Phase.OVER, frozenset({0, 1}))


def test_a_signal_is_forwarded_and_stops() -> None:
    for signum in (INT, TERM, HUP):
        state, actions = replay(THREE, SignalReceived(signum, 1.0))
        assert actions == [
            SignalWorkers(THREE.alive, signum),
            SignalWorkers(THREE.alive, CONT),
            Announce(THREE.alive, signum, 30),
        ]
        assert (state.phase, state.kill_at) == (Phase.STOPPING, 31.0)


def test_slow_workers_are_named_again_and_again_but_not_often() -> None:
    state, _ = replay(THREE, WorkerExited(2, 1, 10.0))
    reminders = []
    while state.kill_at is not None and state.deadline is not None and state.deadline < state.kill_at:
        at = state.deadline
        state, actions = step(state, DeadlinePassed(at))
        reminders.append((at, *actions))
    waiting = frozenset({0, 1})
    assert reminders == [(10 + s, Announce(waiting, None, 30 - s)) for s in (2.0, 4.0, 8.0, 16.0)]


def test_a_second_ctrl_c_kills() -> None:
    _, actions = replay(THREE, SignalReceived(INT, 1.0), SignalReceived(INT, 1.2))
    assert actions[-1] == KillWorkers(THREE.alive)


def test_two_terms_within_two_seconds_are_one() -> None:
    state, actions = replay(THREE, SignalReceived(TERM, 1.0), SignalReceived(TERM, 1.1))
    assert (state.phase, len(actions)) == (Phase.STOPPING, 3)
    _, actions = replay(state, SignalReceived(TERM, 3.5))
    assert actions == [KillWorkers(THREE.alive)]


def test_term_after_a_failure_does_not_shorten_the_grace() -> None:
    state, actions = replay(
        THREE, WorkerExited(0, 1, 1.0), SignalReceived(TERM, 9.0), SignalReceived(TERM, 9.1)
    )
    assert (state.phase, len(actions)) == (Phase.STOPPING, 3)


def test_other_signals_pass_through() -> None:
    state, actions = replay(THREE, SignalReceived(USR1, 1.0))
    assert (state.phase, state.cause, set(state.passed_on)) == (Phase.WATCHING, None, {int(USR1)})
    assert actions == [SignalWorkers(THREE.alive, USR1)]


def test_ctrl_c_that_the_terminal_has_sent_to_a_worker_too_says_so() -> None:
    _, actions = replay(THREE, SignalReceived(INT, 1.0, from_terminal=True))
    assert actions[0] == SignalWorkers(THREE.alive, INT, from_terminal=True)


def test_time_is_up() -> None:
    state = begin(frozenset({0, 1}), 10.0, grace_seconds=3, timeout_at=60.0)
    assert state.deadline == 60.0
    state, actions = step(state, DeadlinePassed(60.0))
    assert (state.cause, state.kill_at) == (TimedOut(60.0), 63.0)
    assert actions[0] == SignalWorkers(frozenset({0, 1}), TERM)


def sample(at: float, cpu: float, output_at: float = 0.0, moved: int = 0) -> ProgressSampled:
    return ProgressSampled(at, {4000: Work(cpu, moved), 4001: Work(cpu, moved)}, output_at)


WATCHED = begin(frozenset({0, 1}), 100.0, grace_seconds=30, stall_seconds=8)


def test_progress_is_looked_for_four_times_per_stall_timeout() -> None:
    state, actions = step(WATCHED, DeadlinePassed(100.0))
    assert (actions, state.deadline) == ((SampleProgress(),), 102.0)
    assert THREE.deadline is None


def test_silent_and_idle_is_stalled() -> None:
    samples = [sample(at, 1.0 + at / 1000) for at in (100.0, 102.0, 104.0, 106.0)]
    state, actions = replay(WATCHED, *samples)
    assert (state.phase, actions) == (Phase.WATCHING, [])
    state, actions = replay(state, sample(108.0, 1.108))
    assert (state.cause, actions) == (Stalled(108.0, 8.0), [AbortWorkers(frozenset({0, 1}))])
    assert state.kill_at == 108.0 + ABORT_SECONDS


def test_output_or_cpu_use_or_a_worker_that_leaves_is_progress() -> None:
    for seen in (
        sample(104.0, 1.0, output_at=103.0),
        sample(104.0, 1.5),
        sample(104.0, 0.2),
        sample(104.0, 1.0, moved=1 << 20),
        ProgressSampled(104.0, {4001: Work(1.0, 0)}, 0.0),
    ):
        state, _ = replay(WATCHED, sample(100.0, 1.0), seen, seen._replace(at=108.0))
        assert (state.phase, state.progress_at) == (Phase.WATCHING, 104.0)


def test_a_run_that_was_suspended_as_a_whole_has_not_stalled() -> None:
    state, actions = replay(WATCHED, sample(100.0, 1.0), sample(102.0, 1.0), sample(999.0, 1.0))
    assert (state.phase, state.progress_at, actions) == (Phase.WATCHING, 999.0, [])


def test_ctrl_z_stops_the_workers_and_then_the_launcher() -> None:
    state, actions = replay(THREE, SignalReceived(signal.SIGTSTP, 1.0))
    assert state == THREE
    assert actions == [SignalWorkers(THREE.alive, signal.SIGSTOP), SuspendLauncher()]


def test_a_signal_during_a_stop_is_remembered() -> None:
    failed = WorkerExited(0, 1, 1.0)
    for signum in (TERM, HUP, INT):
        asked = SignalReceived(signum, 2.0)
        state, _ = replay(THREE, failed, asked)
        assert (state.cause, state.interrupted, state.phase) == (failed, asked, Phase.STOPPING)


def test_the_first_ctrl_c_after_a_failure_leaves_the_grace() -> None:
    state, actions = replay(THREE, WorkerExited(0, 1, 1.0), SignalReceived(INT, 2.0))
    assert (state.phase, actions[-1]) == (Phase.STOPPING, Announce(frozenset({1, 2}), INT, 29.0))
    _, actions = replay(state, SignalReceived(INT, 3.0))
    assert actions == [KillWorkers(frozenset({1, 2}))]


_events = st.one_of(
    st.builds(sample, st.just(9e9), st.just(1.0)),
    st.builds(SignalReceived, st.sampled_from([INT, TERM, HUP, USR1]), st.just(0.0)),
    st.builds(WorkerExited, st.integers(0, 4), st.sampled_from([0, 1, 7, -9, -15]), st.just(0.0)),
    st.just(DeadlinePassed(0.0)),
)


@given(st.lists(_events, max_size=25))
def test_every_history_ends_with_nobody_alive(events: list[Event]) -> None:
    """Whatever happened: once the remaining workers exit, it is over, and the dead are never signalled."""
    state = begin(frozenset(range(5)), 0.0, grace_seconds=30, stall_seconds=5, timeout_at=50.0)
    for event in events:
        if isinstance(event, WorkerExited) and event.rank not in state.alive:
            continue
        if state.phase is Phase.OVER:
            break
        state, actions = step(state, event)
        for action in actions:
            if not isinstance(action, ClearGroup | SampleProgress | SuspendLauncher | Remark):
                assert action.ranks <= state.alive
    for rank in sorted(state.alive):
        if state.phase is not Phase.OVER:
            state, _ = step(state, WorkerExited(rank, 0, 0.0))
    assert state.phase is Phase.OVER
