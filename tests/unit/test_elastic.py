"""Histories of runs that grow and shrink, and that give out node ranks."""

import signal

from ddplaunch.errors import Problem
from ddplaunch.nodes import messages as m
from ddplaunch.nodes.events import Elapsed, Heard, Send
from ddplaunch.nodes.messages import Ending, Orders, Status
from ddplaunch.nodes.roster import Phase
from tests.unit.test_membership import History, account, failed


class Elastic(History):
    """Two nodes are enough, three are the most."""

    def __init__(self, max_restarts: int = 0) -> None:
        super().__init__(max_restarts, least=2)
        self.seats: dict[str, int] = {}

    def come(self, name: str, at: float) -> Orders:
        """A node without a rank is ready to start; what it is told."""
        number = self.numbers[m.UNSEATED, name] = self.numbers.get((m.UNSEATED, name), 0) + 1
        status = Status(m.UNSEATED, name, number, self.hello._replace(host=name), m.READY)
        self.see(Heard(name.encode(), status, at))
        orders = self.told(name.encode())
        if orders.seat != m.UNSEATED:
            self.seats[name] = orders.seat
        return orders

    def told(self, peer: bytes) -> Orders:
        (answer,) = [one.orders for one in self.actions if isinstance(one, Send) and one.peer == peer]
        return answer

    def tell(self, name: str, stage: str, at: float, **more: object) -> None:
        """From now on it speaks as the node it is."""
        member = self.state.members[self.seats[name]]
        number = member.status.number + 1
        status = member.status._replace(number=number, stage=stage, **more)  # type: ignore[arg-type]
        self.see(Heard(name.encode(), status, at))

    def start_two(self) -> "Elastic":
        self.say(0, m.READY)
        self.come("a", 0.1)
        self.pass_time(4.0)
        self.say(0, m.RUNNING, 4.1)
        self.tell("a", m.RUNNING, 4.1)
        return self


def test_a_run_starts_with_the_least_after_a_last_call() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.pass_time(1.0)
    assert run.state.phase is Phase.GATHERING
    assert run.come("a", 1.0).seat == 1
    run.pass_time(3.9)
    assert run.state.phase is Phase.GATHERING
    run.pass_time(4.1)
    assert (run.orders.stage, run.orders.seats, run.orders.nprocs) == (m.START, (0, 1), (2, 2))


def test_with_all_that_may_come_it_starts_at_once() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 1.0)
    run.come("b", 1.1)
    assert (run.orders.stage, run.orders.seats) == (m.START, (0, 1, 2))


def test_a_node_that_asks_again_keeps_its_place() -> None:
    run = Elastic()
    run.say(0, m.READY)
    assert run.come("a", 1.0).seat == 1
    assert run.come("a", 1.1).seat == 1
    assert run.come("b", 1.2).seat == 2


def test_a_launcher_that_was_killed_and_started_again_has_its_place_back() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 0.1)
    run.come("b", 0.2)
    run.say(0, m.RUNNING, 1.0)
    run.tell("a", m.RUNNING, 1.0)
    run.tell("b", m.RUNNING, 1.0)
    again = Status(m.UNSEATED, "another key", 1, run.hello._replace(host="b"), m.READY)
    run.see(Heard(b"b2", again, 5.0))  # while the one before is there, it is one too many
    assert (run.told(b"b2").stage, run.told(b"b2").seat) == (m.WAIT, m.UNSEATED)
    run.vanish(2, 6.0)
    assert (run.told(b"b2").stage, run.told(b"b2").seat) == (m.WAIT, 2)
    run.clear((0,), 8.0)
    run.tell("a", m.CLEAR, 8.0)
    assert (run.orders.stage, run.orders.attempt, run.orders.seats) == (m.START, 1, (0, 1, 2))


def test_a_latecomer_waits_and_is_taken_in_by_a_joint_restart_that_is_not_counted() -> None:
    run = Elastic().start_two()
    told = run.come("b", 10.0)
    assert (told.stage, told.seat) == (m.WAIT, 2)  # not the attempt that runs already
    assert run.orders.stage == m.STOP
    assert run.orders.cause is not None
    assert run.orders.cause.text == "b joins the run"
    run.clear((0,), 11.0)
    run.tell("a", m.CLEAR, 11.0)
    assert (run.orders.stage, run.orders.attempt, run.orders.seats) == (m.START, 1, (0, 1, 2))
    assert run.orders.restarts == 0


def test_a_lost_node_is_dropped_while_enough_remain_and_the_others_close_ranks() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 0.1)
    run.come("b", 0.2)
    run.say(0, m.RUNNING, 1.0)
    for name in ("a", "b"):
        run.tell(name, m.RUNNING, 1.0)
    run.vanish(1, 5.0)
    run.pass_time(17.0)
    run.clear((0,), 18.0)
    run.tell("b", m.CLEAR, 18.0)
    assert (run.orders.stage, run.orders.attempt, run.orders.seats) == (m.START, 1, (0, 2))
    assert run.orders.restarts == 0
    # b is the second of two now, and remains it when another node comes.
    run.say(0, m.RUNNING, 19.0, attempt=1)
    run.tell("b", m.RUNNING, 19.0, attempt=1)
    run.come("c", 20.0)
    run.clear((0,), 21.0, attempt=1)
    run.tell("b", m.CLEAR, 21.0, attempt=1)
    assert (run.orders.stage, run.orders.seats) == (m.START, (0, run.seats["b"], run.seats["c"]))


def test_below_the_least_the_run_waits_for_nodes_and_then_is_lost() -> None:
    run = Elastic().start_two()
    run.vanish(1, 5.0)
    run.pass_time(17.0)
    run.clear((0,), 18.0)
    assert run.state.phase is Phase.GATHERING
    assert run.orders.verdict is not None
    run.pass_time(700.0)
    assert (run.orders.stage, run.orders.verdict.exit_code) == (m.LEAVE, 5)


def test_failures_are_counted_and_comings_and_goings_are_not() -> None:
    run = Elastic(max_restarts=1).start_two()
    run.come("b", 5.0)
    run.clear((0,), 6.0)
    run.tell("a", m.CLEAR, 6.0)
    run.say(0, m.RUNNING, 7.0, attempt=1)
    for name in ("a", "b"):
        run.tell(name, m.RUNNING, 7.0, attempt=1)
    for attempt, stage in ((1, m.WAIT), (2, m.LEAVE)):
        run.say(0, m.RUNNING, 8.0 + attempt, attempt=attempt, ending=failed(0))
        for name in ("a", "b"):
            run.tell(name, m.CLEAR, 8.5 + attempt, attempt=attempt)
        run.clear((0,), 8.6 + attempt, attempt=attempt)
        assert (run.orders.stage == m.LEAVE) is (stage == m.LEAVE)
        if stage == m.WAIT:
            assert (run.orders.stage, run.orders.attempt, run.orders.restarts) == (m.START, 2, 1)
            run.say(0, m.RUNNING, 11.0, attempt=2)
            for name in ("a", "b"):
                run.tell(name, m.RUNNING, 11.0, attempt=2)


def test_nobody_is_taken_in_when_a_node_has_finished_already() -> None:
    run = Elastic().start_two()
    run.say(0, m.DONE, 10.0)
    assert run.come("b", 10.5).stage == m.WAIT
    assert run.state.phase is Phase.RUNNING
    run.tell("a", m.DONE, 11.0)
    assert run.orders.verdict is not None
    assert (run.orders.stage, run.orders.verdict.outcome) == (m.LEAVE, "success")


def test_a_node_that_is_away_at_the_last_call_is_waited_for_without_looking_all_the_time() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 0.1)
    run.vanish(1, 1.0)
    run.pass_time(6.0)  # fails if a deadline changes nothing
    assert run.state.phase is Phase.GATHERING
    run.come("a", 6.1)
    assert run.orders.stage in (m.START, m.WAIT)


def test_a_waiting_newcomer_that_is_interrupted_leaves_alone() -> None:
    run = Elastic().start_two()
    run.say(0, m.DONE, 10.0)
    run.come("b", 10.5)
    run.tell("b", m.READY, 11.0, interrupted=signal.SIGINT)
    (farewell,) = [one for one in run.actions if isinstance(one, Send)]
    assert farewell.orders.verdict is not None
    assert (farewell.orders.stage, farewell.orders.verdict.exit_code) == (m.LEAVE, 130)
    assert run.state.phase is Phase.RUNNING
    assert sorted(run.state.members) == [0, 1]
    left = Status(2, "b", 9, run.hello._replace(host="b"), m.LEFT)  # its last word is no new beginning
    run.see(Heard(b"b", left, 11.1))
    assert sorted(run.state.members) == [0, 1]


def start_three(run: Elastic | None = None) -> Elastic:
    run = run or Elastic()
    run.say(0, m.READY)
    for name in ("a", "b"):
        run.come(name, 0.1)
    run.say(0, m.RUNNING, 1.0)
    for name in ("a", "b"):
        run.tell(name, m.RUNNING, 1.0)
    return run


def interrupt(run: Elastic, name: str, signum: int, at: float) -> None:
    ending = Ending(m.SIGNAL, 0.0, signum=signum)
    run.tell(name, m.RUNNING, at, interrupted=signum, ending=ending)


def test_a_node_that_is_told_to_end_departs_and_the_others_go_on() -> None:
    run = start_three()
    interrupt(run, "a", signal.SIGTERM, 5.0)
    assert run.orders.stage == m.STOP
    run.clear((0,), 6.0)
    run.tell("b", m.CLEAR, 6.0)
    run.tell("a", m.CLEAR, 6.5)
    farewells = [one.orders for one in run.actions if isinstance(one, Send) and one.orders.stage == m.LEAVE]
    assert [orders.verdict.exit_code for orders in farewells if orders.verdict] == [143]
    assert (run.orders.stage, run.orders.seats, run.orders.restarts) == (m.START, (0, 2), 0)


def test_ctrl_c_on_any_node_ends_the_run() -> None:
    run = start_three()
    interrupt(run, "a", signal.SIGINT, 5.0)
    run.clear((0,), 6.0)
    for name in ("a", "b"):
        run.tell(name, m.CLEAR, 6.0)
    assert run.orders.verdict is not None
    assert (run.orders.stage, run.orders.verdict.exit_code) == (m.LEAVE, 130)


def test_a_node_that_departs_is_waited_for_if_too_few_remain_as_one_that_is_lost() -> None:
    run = Elastic().start_two()
    interrupt(run, "a", signal.SIGTERM, 5.0)
    run.clear((0,), 6.0)
    run.tell("a", m.CLEAR, 6.0)
    farewells = [one for one in run.actions if isinstance(one, Send) and one.orders.stage == m.LEAVE]
    assert [farewell.peer for farewell in farewells] == [b"a"]
    run.pass_time(6.1)
    assert (run.orders.stage, run.orders.waiting) == (m.WAIT, "waiting for 1 more node (have n0)")
    run.come("b", 20.0)
    run.pass_time(22.9)
    assert run.orders.stage == m.WAIT  # others may come, too: they need not be taken in one by one
    run.pass_time(23.1)
    assert (run.orders.stage, run.orders.attempt) == (m.START, 1)


def test_a_node_that_is_told_to_end_while_a_run_forms_just_goes() -> None:
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 0.1)
    run.tell("a", m.READY, 0.2, interrupted=signal.SIGTERM)
    assert (run.state.phase, sorted(run.state.members)) == (Phase.GATHERING, [0])


def test_who_is_impatient_leaves_a_forming_run_alone() -> None:
    run = Elastic()
    run.state = run.state._replace(rules=run.state.rules._replace(min_nnodes=3))
    run.say(0, m.READY)
    run.hello = run.hello._replace(join_seconds=5.0)
    run.come("a", 1.0)
    assert run.state.deadline is not None
    assert run.state.deadline <= 6.0
    run.see(Elapsed(6.0))
    assert (run.state.phase, sorted(run.state.members)) == (Phase.GATHERING, [0])
    assert run.told(b"a").verdict is not None
    assert run.orders.stage == m.WAIT


def test_a_spare_comes_in_with_the_restart_that_a_departure_makes() -> None:
    run = start_three()
    assert run.come("c", 3.0).seat == m.UNSEATED
    interrupt(run, "a", signal.SIGTERM, 5.0)
    run.clear((0,), 6.0)
    run.tell("b", m.CLEAR, 6.0)
    run.tell("a", m.CLEAR, 6.5)
    assert (run.orders.stage, run.orders.attempt, len(run.orders.seats)) == (m.START, 1, 3)


def test_how_an_attempt_went_is_known_of_those_that_left_it() -> None:
    run = start_three()
    interrupt(run, "a", signal.SIGTERM, 5.0)
    run.clear((0,), 6.0)
    run.tell("b", m.CLEAR, 6.0, account=account(2))
    run.tell("a", m.CLEAR, 6.5, account=account(1))
    run.tell("b", m.RUNNING, 7.0, attempt=1, account=None)
    told = run.state.accounts[0]
    assert {worker.rank for place in (1, 2) for worker in told[place].workers} == {
        worker.rank for node in (1, 2) for worker in account(node).workers
    }


def test_a_newcomer_with_the_same_name_on_another_machine_does_not_take_a_place_that_is_kept() -> None:
    run = start_three()
    run.state = run.state._replace(rules=run.state.rules._replace(nnodes=4))
    run.vanish(run.seats["b"], 5.0)
    other = Status(m.UNSEATED, "key", 1, run.hello._replace(host="b", machine="another"), m.READY)
    run.see(Heard(b"other", other, 6.0))
    assert run.told(b"other").seat == 3


def test_a_node_that_was_dropped_and_comes_back_takes_part_again() -> None:
    run = start_three()
    run.vanish(1, 5.0)
    run.pass_time(17.0)
    run.clear((0,), 18.0)
    run.tell("b", m.CLEAR, 18.0)
    run.say(0, m.RUNNING, 19.0, attempt=1)
    run.tell("b", m.RUNNING, 19.0, attempt=1)
    back = Status(
        1, "a", 50, run.hello._replace(host="a"), m.CLEAR, run_id="run"
    )  # it has cleared up meanwhile
    run.see(Heard(b"a2", back, 30.0))
    assert run.orders.stage == m.STOP
    run.clear((0,), 31.0, attempt=1)
    run.tell("b", m.CLEAR, 31.0, attempt=1)
    assert (run.orders.stage, run.orders.seats) == (m.START, (0, 2, 1))  # b keeps the rank it has by now


def test_who_comes_shortly_after_another_is_taken_in_by_the_same_restart() -> None:
    run = Elastic()
    run.state = run.state._replace(rules=run.state.rules._replace(nnodes=4))
    run.start_two()
    run.come("b", 10.0)
    assert run.orders.stage == m.START
    run.pass_time(12.9)
    assert run.orders.stage == m.START
    run.pass_time(13.1)
    assert run.orders.stage == m.STOP


def test_a_node_that_cannot_start_does_not_keep_the_others_from_it() -> None:
    run = Elastic()
    run.say(0, m.READY)
    ending = Ending(m.PROBLEM, 0.0, problems=(Problem("cannot find the script"),))
    status = Status(m.UNSEATED, "a", 1, run.hello._replace(host="a"), m.CLEAR, ending=ending)
    run.see(Heard(b"a", status, 1.0))
    assert run.state.phase is Phase.GATHERING
    (answer,) = [one for one in run.actions if isinstance(one, Send)]
    assert answer.orders.stage == m.LEAVE


def test_a_node_that_was_asked_to_end_and_vanishes_is_lost_and_the_others_go_on() -> None:
    """A machine that somebody else needs gets SIGTERM, and is taken away before its workers are clear."""
    run = Elastic()
    run.say(0, m.READY)
    run.come("a", 0.1)
    run.come("b", 0.2)
    for name in ("a", "b"):
        run.tell(name, m.RUNNING, 0.5)
    run.say(0, m.RUNNING, 0.5)
    ending = Ending(m.SIGNAL, 0.0, signum=signal.SIGTERM)
    run.tell("b", m.RUNNING, 5.0, interrupted=signal.SIGTERM, ending=ending)
    run.vanish(run.seats["b"], 6.0)
    run.clear([0], 7.0)
    run.tell("a", m.CLEAR, 7.0, account=account(1))
    run.pass_time(30.0)
    assert run.orders.stage == m.START
    assert run.orders.seats == (0, run.seats["a"])


def test_a_loss_that_workers_notice_before_the_launchers_is_still_the_cause() -> None:
    """Silence takes a fifth of --heartbeat-timeout to be noticed; a collective may time out sooner."""
    run = start_three()
    run.tell("b", m.RUNNING, 5.0, ending=failed(2))
    run.vanish(run.seats["a"], 8.5)
    run.clear((0,), 9.0)
    run.tell("b", m.CLEAR, 9.0, account=account(2))
    run.pass_time(21.0)
    assert (run.orders.stage, run.orders.attempt, run.orders.restarts) == (m.START, 1, 0)
    assert run.orders.verdict is not None
    assert run.orders.verdict.outcome == "node-lost"


def test_a_join_that_cannot_be_made_is_no_success() -> None:
    run = Elastic().start_two()
    run.come("b", 10.0)
    run.pass_time(14.0)
    assert run.orders.stage == m.STOP
    run.pass_time(200.0)  # nobody is ever clear
    assert run.orders.stage == m.LEAVE
    assert run.orders.verdict is not None
    assert (run.orders.verdict.outcome, run.orders.verdict.exit_code) == ("node-lost", 5)


def test_a_short_join_timeout_does_not_end_a_run_that_has_enough_nodes() -> None:
    run = Elastic()
    run.say(0, m.READY, hello=run.hello._replace(join_seconds=2.0))
    run.come("a", 0.5)
    run.pass_time(2.1)
    assert run.orders.stage == m.START
