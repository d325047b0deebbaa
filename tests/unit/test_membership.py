"""Histories of runs of many nodes, replayed without a network."""

import signal
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddplaunch.errors import Problem
from ddplaunch.nodes import messages as m
from ddplaunch.nodes.events import (
    LOCAL,
    Action,
    Elapsed,
    Event,
    Heard,
    Misheard,
    Say,
    Send,
    TurnedAway,
    Vanished,
)
from ddplaunch.nodes.membership import step
from ddplaunch.nodes.messages import Account, Ending, Hello, Orders, Status
from ddplaunch.nodes.roster import Phase, Rules, State, begin
from ddplaunch.report.model import Failure, WorkerRecord
from ddplaunch.supervise.restart import RestartPolicy

HELLO = Hello(
    "n0", "launch", 3, 2, 29500, 0, "", "train.py", "ab", "cd", "2.13", "3.11", "1", 30.0, 0.0, 600.0
)


class History:
    """A run as node 0 sees it: who said what when, and what they are told."""

    def __init__(self, max_restarts: int = 0, backoff: float = 0.0, least: int = 0) -> None:
        policy = RestartPolicy(max_restarts, 0.0, backoff)
        self.hello = HELLO._replace(max_restarts=max_restarts, min_nnodes=least, gives_ranks=least > 0)
        self.state: State = begin(Rules("run", 3, 12.0, 15.0, 5.0, policy, least > 0, least, 3.0), 0.0, 600.0)
        self.numbers: dict[tuple[int, str], int] = {}
        self.actions: tuple[Action, ...] = ()
        self.at = 0.0

    def see(self, event: Event) -> None:
        self.at = event.at
        self.state, self.actions = step(self.state, event)

    def say(self, node: int, stage: str, at: float = 0.0, key: str = "", **more: object) -> None:
        key = key or f"key{node}"
        number = self.numbers[node, key] = self.numbers.get((node, key), 0) + 1
        hello = more.pop("hello", self.hello._replace(host=f"n{node}"))
        peer = LOCAL if node == 0 else f"{node}{key}".encode()
        status = Status(node, key, number, hello, stage, **more)  # type: ignore[arg-type]
        self.see(Heard(peer, status, at))

    def vanish(self, node: int, at: float) -> None:
        self.see(Vanished(self.state.members[node].peer, at))

    def pass_time(self, until: float) -> None:
        """Whenever it wants to look again; and never for nothing, or it would look without end."""
        while (deadline := self.state.deadline) is not None and deadline <= until:
            before = self.state
            self.see(Elapsed(max(deadline, self.at)))
            assert self.state != before, f"a deadline that changes nothing: {deadline}"
        self.see(Elapsed(until))

    @property
    def is_over(self) -> bool:
        return self.state.phase is Phase.OVER

    @property
    def orders(self) -> Orders:
        return self.state.orders

    def gathered(self) -> "History":
        for node in range(3):
            self.say(node, m.READY, 0.1)
        return self

    def running(self) -> "History":
        self.gathered()
        for node in range(3):
            self.say(node, m.RUNNING, 1.0)
        return self

    def clear(self, nodes: Sequence[int], at: float, attempt: int = 0) -> None:
        for node in nodes:
            member = self.state.members[node]
            self.say(
                node,
                m.CLEAR,
                at,
                attempt=attempt,
                ending=member.status.ending,
                account=account(node),
                key=member.status.key,
            )


def account(node: int) -> Account:
    worker = WorkerRecord(2 * node, 0, node, f"n{node}", 7, 1, 3.0, False)
    return Account((worker,), 3.0, Failure(worker, (f"boom {node}",), "stderr", None), (), True)


def failed(node: int, age: float = 0.0, code: int = 7) -> Ending:
    return Ending(m.FAILED, age, 2 * node, code)


def test_a_run_starts_when_all_are_there_in_any_order() -> None:
    run = History()
    for node in (2, 0, 1):
        if node == 2:
            run.say(0, m.LOOKING)
        run.say(node, m.READY, hello=HELLO._replace(host=f"n{node}", nproc=node + 1))
    assert (run.orders.stage, run.orders.nprocs) == (m.START, (1, 2, 3))


def test_only_the_start_lists_all_nodes() -> None:
    """A thousand nodes that are told to stop, or to leave, have a short message to read."""
    run = History().running()
    assert (len(run.orders.nprocs), len(run.orders.seats)) == (3, 3)
    run.say(1, m.RUNNING, 2.0, ending=failed(1))
    assert (run.orders.stage, run.orders.nprocs, run.orders.seats) == (m.STOP, (), ())
    well = History().running()
    for node in range(3):
        well.say(node, m.DONE, 2.0)
    assert (well.orders.stage, well.orders.nprocs, well.orders.seats) == (m.LEAVE, (), ())


def test_who_is_missing_is_said_and_in_the_end_not_waited_for() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(2, m.READY)
    run.pass_time(6.0)
    assert run.orders.waiting == "waiting for node 1 (have 0 n0, 2 n2)"
    run.pass_time(600.0)
    assert run.orders.stage == m.LEAVE
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 4
    assert run.orders.verdict.problems[0].cause == "waiting for node 1 (have 0 n0, 2 n2)"


def test_the_shortest_patience_of_any_node_counts() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, hello=HELLO._replace(host="n1", join_seconds=20.0))
    run.pass_time(20.0)
    assert run.orders.stage == m.LEAVE


def test_what_came_first_by_the_clock_is_the_cause_not_what_was_heard_first() -> None:
    run = History().running()
    run.say(1, m.RUNNING, 10.0, ending=failed(1, age=0.1))
    assert run.orders.stage == m.STOP
    run.say(2, m.RUNNING, 10.05, ending=failed(2, age=0.5, code=9))
    run.clear((0, 1, 2), 11.0)
    verdict = run.orders.verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.exit_code) == ("worker-failed", 9)
    assert verdict.failure is not None
    assert verdict.failure.tail == ("boom 2",)


def test_nobody_leaves_before_all_are_clear_and_node_0_not_before_all_have_left() -> None:
    run = History().running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.clear((0, 2), 10.1)
    assert run.orders.stage == m.STOP
    run.clear((1,), 15.0)
    assert run.orders.stage == m.LEAVE
    for node in (0, 1):
        run.say(node, m.LEFT, 15.1)
    assert not run.is_over
    run.say(2, m.LEFT, 15.2)
    assert run.is_over


def test_a_node_that_never_becomes_clear_is_not_waited_for_for_ever() -> None:
    run = History().running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.clear((0, 2), 10.1)
    run.pass_time(46.0)
    assert run.orders.stage == m.STOP
    assert run.orders.waiting == "waiting for node 1 (n1) to stop"
    run.pass_time(47.0)
    assert run.orders.stage == m.LEAVE


def test_a_vanished_node_has_a_while_to_come_back() -> None:
    run = History().running()
    run.vanish(1, 10.0)
    run.pass_time(21.9)
    run.say(1, m.RUNNING, 21.95)
    run.pass_time(60.0)
    assert run.orders.stage == m.START
    run.vanish(1, 70.0)
    run.pass_time(82.0)
    assert run.orders.stage == m.STOP
    run.clear((0, 2), 83.0)
    assert run.orders.verdict is not None
    assert (run.orders.verdict.outcome, run.orders.verdict.exit_code) == ("node-lost", 5)


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_a_vanished_node_explains_what_failed_elsewhere_with_it(late: float) -> None:
    """Workers that lose their peers fail at once; their failure may even be heard first."""
    run = History().running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.vanish(1, 10.0 + late)
    run.clear((0, 2), 10.8)
    assert run.orders.stage == m.STOP
    run.pass_time(30.0)
    assert run.orders.verdict is not None
    assert run.orders.verdict.outcome == "node-lost"


def test_what_a_node_said_before_it_vanished_stands() -> None:
    run = History().running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.vanish(2, 10.2)
    run.clear((0, 1), 10.8)
    run.pass_time(30.0)
    assert run.orders.verdict is not None
    assert (run.orders.verdict.exit_code, run.orders.verdict.reason) == (
        7,
        "rank 4 on node 2 (n2): exit code 7",
    )


def test_a_node_rank_given_twice_ends_a_run_that_forms_and_not_one_that_runs() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY)
    run.say(1, m.READY, key="other", hello=HELLO._replace(host="n9"))
    assert run.orders.stage == m.LEAVE
    assert run.orders.verdict is not None
    assert run.orders.verdict.problems[0].cause == "n1 and n9 both say --node-rank 1"

    run = History().running()
    run.say(1, m.READY, 2.0, key="other", hello=HELLO._replace(host="n9"))
    assert run.orders.stage == m.START
    refusal = run.actions[0]
    assert isinstance(refusal, Send)
    assert refusal.orders.stage == m.LEAVE


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("nnodes", 2, "--nnodes"),
        ("max_restarts", 3, "--max-restarts"),
        ("script_digest", "xy", "the script"),
        ("torch", "2.4", "torch"),
        ("master_port", 1, "--master-port"),
    ],
)
def test_what_must_agree(field: str, value: object, words: str) -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, hello=HELLO._replace(host="n1", **{field: value}))  # type: ignore[arg-type]
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 4
    problem = run.orders.verdict.problems[0]
    assert problem.what == f"the nodes do not agree on {words}"
    assert "node 0 (n0)" in problem.cause
    assert "node 1 (n1)" in problem.cause


def test_what_is_unknown_is_not_compared_and_what_should_agree_is_a_warning() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, hello=HELLO._replace(host="n1", torch="", python="3.12", arguments_digest="ef"))
    run.say(2, m.READY)
    assert run.orders.stage == m.START
    assert run.orders.warnings == (
        "the script's arguments: cd on node 0 (n0), ef on node 1 (n1)",
        "Python: 3.11 on node 0 (n0), 3.12 on node 1 (n1)",
    )


def test_another_runs_node_is_turned_away_and_ends_nothing() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, key="other", hello=HELLO._replace(run_name="theirs"))
    assert run.orders.stage == m.WAIT
    assert 1 not in run.state.members


def test_replayed_and_forged_messages_change_nothing() -> None:
    run = History().running()
    before = run.state
    old = Status(1, "key1", 1, run.hello, m.RUNNING, ending=failed(1))
    run.see(Heard(b"thief", old, 5.0))
    forged = Status(1, "guess", 99, run.hello, m.RUNNING, ending=failed(1))
    run.see(Heard(b"thief", forged, 5.0))
    run.see(Heard(b"thief", forged._replace(node=0), 5.0))
    run.see(Heard(b"thief", forged._replace(node=77), 5.0))
    run.see(Misheard(b"thief", None, 5.0))
    run.see(Misheard(b"thief", 2, 5.0))
    run.see(Vanished(b"thief", 5.0))
    assert run.state == before


def test_strangers_are_named_once_and_not_without_end() -> None:
    run = History().running()
    said = []
    for number in range(100):
        for _ in range(2):
            run.see(TurnedAway(f"10.0.0.{number}", 2.0))
            said += [action for action in run.actions if isinstance(action, Say)]
    assert len(said) == 8


def test_a_restart_waits_until_all_are_clear_and_counts() -> None:
    run = History(max_restarts=1).running()
    run.say(1, m.RUNNING, 10.0, ending=failed(1))
    run.clear((0, 1), 10.1)
    assert run.orders.attempt == 0
    run.clear((2,), 10.2)
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 7
    for node in range(3):
        run.say(node, m.RUNNING, 11.0, attempt=1)
    run.say(2, m.RUNNING, 20.0, attempt=1, ending=failed(2))
    run.clear((0, 1, 2), 20.1, attempt=1)
    assert run.orders.stage == m.LEAVE


def test_how_an_attempt_ended_is_not_held_against_the_next_one() -> None:
    """Node 1 has not even begun the second attempt when it is over."""
    run = History(max_restarts=2).running()
    run.say(1, m.RUNNING, 10.0, ending=failed(1))
    run.clear((0, 1, 2), 10.1)
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)
    run.say(0, m.RUNNING, 10.2, attempt=1)
    run.say(0, m.RUNNING, 10.3, attempt=1, ending=failed(0, code=9))
    run.say(1, m.CLEAR, 10.4, attempt=1)
    run.say(2, m.CLEAR, 10.4, attempt=1)
    run.say(0, m.CLEAR, 10.5, attempt=1, ending=failed(0, code=9), account=account(0))
    assert (run.orders.stage, run.orders.attempt) == (m.START, 2)
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 9


def test_a_lost_node_may_come_back_for_the_next_attempt() -> None:
    run = History(max_restarts=1).running()
    run.vanish(1, 10.0)
    run.say(1, m.READY, 11.0, key="again")
    assert run.orders.stage == m.STOP
    run.clear((0, 2), 12.0)
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)


def test_without_restarts_a_node_that_comes_back_is_turned_away() -> None:
    run = History().running()
    run.vanish(1, 10.0)
    run.say(1, m.READY, 11.0, key="again")
    assert run.orders.stage == m.START
    assert run.state.members[1].status.key == "key1"


def test_a_newcomer_does_not_hold_up_the_end_of_an_attempt() -> None:
    run = History(max_restarts=1).running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.vanish(1, 10.1)
    run.say(1, m.READY, 10.5, key="again")
    run.clear((0, 2), 11.0)
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)


def test_ctrl_c_ends_the_run_and_not_just_the_attempt() -> None:
    run = History(max_restarts=1).running()
    run.say(2, m.RUNNING, 10.0, ending=failed(2))
    run.say(1, m.RUNNING, 10.1, interrupted=signal.SIGINT)
    for node in range(3):
        run.say(node, m.CLEAR, 10.2, interrupted=signal.SIGINT if node == 1 else 0, account=account(node))
    assert run.orders.verdict is not None
    assert (run.orders.verdict.exit_code, run.orders.verdict.reason) == (130, "node 1 (n1) received SIGINT")


def test_only_together_nodes_stall() -> None:
    run = History().running()
    run.say(0, m.RUNNING, 5.0, is_silent=True)
    run.say(1, m.RUNNING, 5.0, is_silent=True)
    assert run.orders.stage == m.START
    run.say(0, m.RUNNING, 6.0, is_silent=False)
    run.say(2, m.DONE, 7.0)
    assert run.orders.stage == m.START
    run.say(0, m.RUNNING, 8.0, is_silent=True)
    assert run.orders.stage == m.STOP
    assert run.orders.cause is not None
    assert run.orders.cause.kind == m.STALLED


def test_a_node_that_cannot_start_says_why_to_all() -> None:
    run = History()
    run.say(0, m.READY)
    problem = Problem("cannot find the script gone.py", "no such file", exit_code=2)
    run.say(2, m.CLEAR, ending=Ending(m.PROBLEM, 0.0, problems=(problem,)))
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 2
    assert run.orders.verdict.problems[0].what == "node 2 (n2): cannot find the script gone.py"


def test_a_node_that_cannot_start_again_does_not_end_a_run_that_has_restarts_left() -> None:
    run = History(max_restarts=2).running()
    run.vanish(1, 10.0)
    run.pass_time(22.0)
    run.clear((0, 2), 22.1)
    assert (run.orders.stage, run.orders.attempt) == (m.WAIT, 1)
    problem = Problem("cannot find the script gone.py", exit_code=2)
    run.say(1, m.CLEAR, 23.0, key="again", ending=Ending(m.PROBLEM, 0.0, problems=(problem,)))
    assert run.orders.stage == m.WAIT
    run.say(1, m.READY, 24.0, key="third")
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)


def test_a_signal_that_crossed_the_start_is_heard() -> None:
    run = History().gathered()
    assert run.orders.stage == m.START
    run.say(1, m.READY, 1.0, interrupted=signal.SIGINT)
    assert run.orders.stage == m.STOP
    run.clear((0, 1, 2), 2.0)
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 130


def test_a_timeout_between_attempts_counts_although_the_attempt_had_another_end() -> None:
    run = History(max_restarts=1).running()
    run.vanish(1, 10.0)
    run.say(0, m.RUNNING, 10.1, ending=failed(0))
    run.clear((0, 2), 11.0)
    run.pass_time(25.0)
    assert run.orders.stage == m.WAIT
    run.say(0, m.CLEAR, 30.0, ending=Ending(m.TIMEOUT, 0.0))
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 124


def test_a_node_that_is_lost_between_attempts_is_a_lost_node() -> None:
    run = History(max_restarts=1, backoff=30.0).running()
    run.say(0, m.RUNNING, 10.0, ending=failed(0))
    run.clear((0, 1, 2), 11.0)
    assert (run.orders.stage, run.orders.attempt) == (m.WAIT, 1)
    run.vanish(2, 12.0)
    run.pass_time(700.0)
    assert run.orders.verdict is not None
    assert (run.orders.verdict.exit_code, run.orders.verdict.outcome) == (5, "node-lost")


def test_a_connection_that_is_broken_at_the_very_end_is_waited_for() -> None:
    run = History().running()
    for node in (1, 2, 0):
        if node == 0:
            run.vanish(1, 9.0)
        run.say(node, m.DONE, 9.5)
    assert run.orders.verdict is not None
    assert run.orders.verdict.exit_code == 0
    run.say(0, m.LEFT, 9.6)
    run.say(2, m.LEFT, 9.7)
    run.pass_time(15.0)
    assert not run.is_over
    run.say(1, m.DONE, 15.1)
    assert isinstance(run.actions[0], Send)
    run.say(1, m.LEFT, 15.2)
    assert run.is_over


def test_a_node_of_a_run_that_was_here_before_is_turned_away_unless_it_had_not_begun() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.RUNNING, 1.0, run_id="before")
    assert 1 not in run.state.members
    run.say(1, m.READY, 1.0, run_id="before")
    assert 1 in run.state.members


def test_a_latecomer_to_a_run_that_failed_to_form_hears_why() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, hello=HELLO._replace(host="n1", nnodes=2))
    run.say(1, m.LEFT, 0.5)
    assert not run.is_over
    run.say(2, m.READY, 1.0)
    late = run.actions[0]
    assert isinstance(late, Send)
    assert late.orders.verdict == run.orders.verdict
    run.pass_time(3.0)
    assert run.is_over


_nodes = st.integers(0, 2)
_stages = st.sampled_from([m.LOOKING, m.READY, m.RUNNING, m.DONE, m.CLEAR, m.LEFT])
_happenings = st.one_of(
    st.tuples(st.just("say"), _nodes, _stages, st.integers(0, 2)),
    st.tuples(st.just("fail"), _nodes, st.just(m.RUNNING), st.integers(0, 2)),
    st.tuples(st.just("again"), st.integers(1, 2), st.just(m.READY), st.just(0)),
    st.tuples(st.just("vanish"), st.integers(1, 2), st.just(""), st.just(0)),
    st.tuples(st.just("wait"), st.just(0), st.just(""), st.integers(1, 20)),
)


@settings(max_examples=300)
@given(st.lists(_happenings, max_size=30), st.sampled_from([0, 1, 2]))
def test_every_history_ends_once_the_nodes_obey_or_vanish(
    happenings: list[tuple[str, int, str, int]], least: int
) -> None:
    """Whatever was said: no number of orders goes back, and a run that everybody leaves is over."""
    run = History(max_restarts=2, least=least)
    run.say(0, m.LOOKING)
    at, number = 0.0, -1
    for what, node, stage, amount in happenings:
        at += 0.1
        if what == "wait":
            at += amount
            run.pass_time(at)
        elif what == "vanish" and node in run.state.members:
            run.vanish(node, at)
        elif what in ("say", "fail", "again"):
            ending = failed(node) if what == "fail" else None
            run.say(node, stage, at, key="again" if what == "again" else "", attempt=amount, ending=ending)
        assert run.orders.number >= number
        number = run.orders.number
    run.say(0, m.CLEAR, at, attempt=run.state.attempt, interrupted=signal.SIGTERM, ending=failed(0))
    for node in (1, 2):
        if node in run.state.members:
            run.vanish(node, at)
    run.pass_time(at + 2000)
    assert run.is_over
