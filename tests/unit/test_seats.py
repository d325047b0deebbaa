"""Who has which node rank, who waits for a place, and who has come for another run."""

from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.nodes import messages as m
from ddplaunch.nodes.events import Elapsed, Heard, Send, SendAll, Vanished
from ddplaunch.nodes.messages import Orders, Status
from ddplaunch.nodes.roster import Member, Phase
from ddplaunch.nodes.seats import assign_ranks
from tests.unit.test_elastic import Elastic, start_three
from tests.unit.test_membership import HELLO, History, failed


def member(node: int, host: str, rank: int = m.UNSEATED) -> Member:
    return Member(Status(node, f"key{node}", 1, HELLO._replace(host=host), m.READY), b"", rank)


def test_node_0_is_first_and_the_others_come_in_the_order_of_their_hosts() -> None:
    members = {0: member(0, "z", 0), 1: member(1, "n10"), 2: member(2, "n9"), 3: member(3, "a")}
    assert assign_ranks(members) == (0, 3, 2, 1)


def test_launchers_on_one_host_come_in_the_order_in_which_they_came() -> None:
    members = {0: member(0, "n", 0), 2: member(2, "n"), 1: member(1, "n")}
    assert assign_ranks(members) == (0, 1, 2)


def test_a_newcomer_fills_the_gap_and_who_stays_keeps_its_rank() -> None:
    assert assign_ranks({0: member(0, "z", 0), 2: member(2, "c", 2), 1: member(1, "d")}) == (0, 1, 2)
    assert assign_ranks({0: member(0, "z", 0), 2: member(2, "c", 2)}) == (0, 2)


@given(st.dictionaries(st.integers(1, 30), st.text(max_size=4)), st.permutations(range(1, 31)), st.data())
def test_ranks_have_no_gaps_and_change_only_where_they_must(
    hosts: dict[int, str], ranks: list[int], data: st.DataObject
) -> None:
    known = data.draw(st.sets(st.sampled_from(sorted(hosts)))) if hosts else set()
    members = {0: member(0, "n0", 0)}
    for node, host in hosts.items():
        members[node] = member(node, host, ranks[node - 1] if node in known else m.UNSEATED)
    seats = assign_ranks(members)
    assert sorted(seats) == sorted(members)
    for rank, node in enumerate(seats):
        had = members[node].rank
        assert had in (m.UNSEATED, rank) or had >= len(seats)


def test_after_a_loss_nodes_are_called_by_their_present_rank() -> None:
    run = start_three()
    run.vanish(1, 5.0)
    run.pass_time(17.0)
    assert run.orders.cause is not None
    assert run.orders.cause.text == "node 1 (a) was lost"
    run.clear((0,), 18.0)
    run.tell("b", m.CLEAR, 18.0)
    run.say(0, m.RUNNING, 19.0, attempt=1)
    run.tell("b", m.RUNNING, 19.0, attempt=1)
    run.tell("b", m.RUNNING, 20.0, attempt=1, ending=failed(1))
    assert run.orders.cause.text == "rank 2 on node 1 (b) failed: exit code 7"


# --- one too many -----------------------------------------------------------------------------------


def test_a_node_too_many_waits_and_comes_in_for_one_that_is_lost() -> None:
    run = start_three()
    told = run.come("c", 2.0)
    assert (told.stage, told.seat) == (m.WAIT, m.UNSEATED)
    assert told.waiting == "waiting for a place: the run has all its 3 nodes"
    run.vanish(1, 5.0)
    run.pass_time(16.9)  # it may come back
    assert run.state.queue
    run.pass_time(17.1)
    assert not run.state.queue
    run.clear((0,), 18.0)
    run.tell("b", m.CLEAR, 18.0)
    run.seats["c"] = 1
    run.tell("c", m.CLEAR, 18.0)
    assert (run.orders.stage, run.orders.seats) == (m.START, (0, 1, 2))
    assert run.state.members[1].status.hello.host == "c"


def test_a_node_too_many_waits_as_long_as_it_was_told_to() -> None:
    run = start_three()
    run.come("c", 2.0)
    run.pass_time(601.9)
    assert run.state.queue
    run.see(Elapsed(602.0))
    full = run.told(b"c")
    assert full.verdict is not None
    assert (full.stage, full.verdict.exit_code) == (m.LEAVE, 4)
    assert full.verdict.problems[0].what == "the run has all its 3 nodes"
    assert run.state.phase is Phase.RUNNING


def test_a_node_too_many_hears_of_the_end_and_is_waited_for() -> None:
    run = start_three()
    run.come("c", 2.0)
    run.say(0, m.DONE, 3.0)
    for name in ("a", "b"):
        run.tell(name, m.DONE, 3.0)
    assert run.orders.stage == m.LEAVE
    (sent,) = [one for one in run.actions if not isinstance(one, Send)]
    assert isinstance(sent, SendAll)
    assert b"c" in sent.peers
    for name in ("a", "b"):
        run.tell(name, m.LEFT, 3.1)
    run.say(0, m.LEFT, 3.1)
    assert not run.is_over
    left = Status(m.UNSEATED, "c", 2, run.hello._replace(host="c"), m.LEFT, run_id="run")
    run.see(Heard(b"c", left, 3.2))
    assert run.is_over


def test_a_node_too_many_that_does_not_fit_or_vanishes_or_is_interrupted_waits_no_more() -> None:
    run = start_three()
    other = Status(m.UNSEATED, "d", 1, run.hello._replace(host="d", script_digest="other"), m.READY)
    run.see(Heard(b"d", other, 2.0))
    refused = run.told(b"d").verdict
    assert refused is not None
    assert refused.problems[0].cause == "train.py (ab) on node 0 (n0), train.py (other) on d"
    run.come("c", 3.0)
    run.see(Vanished(b"c", 3.5))
    assert not run.state.queue
    run.come("c", 3.6)
    assert run.state.queue
    stop = Status(m.UNSEATED, "c", 9, run.hello._replace(host="c"), m.READY, interrupted=2)
    run.see(Heard(b"c", stop, 4.0))
    assert run.told(b"c").stage == m.LEAVE
    assert not run.state.queue


def test_without_an_elastic_range_one_too_many_is_refused_at_once_unless_a_node_seems_lost() -> None:
    run = start_three(gives_ranks(max_restarts=1))
    assert run.come("c", 2.0).stage == m.LEAVE
    run.vanish(1, 3.0)
    assert run.come("d", 4.0).stage == m.WAIT
    run.tell("a", m.RUNNING, 5.0)  # it was there all the time
    assert run.told(b"d").stage == m.LEAVE


def gives_ranks(max_restarts: int = 0) -> Elastic:
    """Three nodes, none more and none less, that are given their ranks."""
    run = Elastic(max_restarts)
    run.hello = run.hello._replace(min_nnodes=0)
    run.state = run.state._replace(rules=run.state.rules._replace(min_nnodes=0))
    return run


def test_a_node_whose_place_was_given_away_while_the_run_forms_is_given_another() -> None:
    run = gives_ranks()
    run.say(0, m.READY)
    assert run.come("a", 0.5).seat == 1
    run.vanish(1, 1.0)
    run.pass_time(14.0)
    assert run.come("b", 15.0).seat == 1
    back = Status(1, "a", 50, run.hello._replace(host="a"), m.READY, run_id="run")
    run.see(Heard(b"a2", back, 16.0))
    assert run.told(b"a2").seat == 2
    assert (run.orders.stage, run.orders.seats) == (m.START, (0, 2, 1))


def test_a_node_that_comes_back_while_the_others_stop_has_its_time_to_stop() -> None:
    run = History(max_restarts=1).gathered()
    for node in range(3):
        run.say(node, m.RUNNING, 1.0)
    run.vanish(2, 2.0)
    run.say(1, m.RUNNING, 3.0, ending=failed(2))
    run.clear((0, 1), 4.0)
    run.state = run.state._replace(rules=run.state.rules._replace(patience_seconds=60.0))
    run.say(2, m.RUNNING, 39.0)  # 30 s of grace and some more, from here on
    run.pass_time(70.0)
    assert run.state.phase is Phase.STOPPING
    run.clear((2,), 70.5)
    assert run.orders.stage == m.START


# --- for the next run -------------------------------------------------------------------------------


def finished(run: History) -> History:
    for node in range(3):
        run.say(node, m.DONE, 5.0)
    assert run.orders.stage == m.LEAVE
    return run


def running() -> History:
    run = History().gathered()
    for node in range(3):
        run.say(node, m.RUNNING, 1.0)
    return run


def answer(run: History, status: Status) -> Orders:
    run.see(Heard(b"new", status, 6.0))
    (sent,) = [one for one in run.actions if isinstance(one, Send)]
    return sent.orders


def test_a_launcher_that_is_early_for_the_next_run_looks_again() -> None:
    run = finished(running())
    assert answer(run, Status(2, "new key", 1, HELLO._replace(host="n2"), m.LOOKING)).stage == m.LATER
    assert answer(run, Status(2, "new key", 2, HELLO._replace(host="n2"), m.READY)).stage == m.LATER
    assert run.state.members[2].status.key == "key2"


def test_one_that_belonged_to_this_run_hears_how_it_ended() -> None:
    run = running()
    run.vanish(2, 2.0)
    run.pass_time(30.0)  # it is lost
    run.clear((0, 1), 31.0)
    assert run.orders.stage == m.LEAVE
    back = Status(2, "key2", 50, HELLO._replace(host="n2"), m.CLEAR, run_id="run")
    assert answer(run, back).stage == m.LEAVE
    again = Status(2, "new key", 1, HELLO._replace(host="n2"), m.READY)  # perhaps for a restart
    assert answer(run, again).stage == m.LEAVE


def test_another_run_or_a_launch_after_a_check_looks_again_whatever_the_place() -> None:
    run = running()
    run.vanish(2, 2.0)
    run.pass_time(30.0)
    run.clear((0, 1), 31.0)
    for hello in (HELLO._replace(purpose="check"), HELLO._replace(run_name="B")):
        assert answer(run, Status(2, "new key", 1, hello, m.READY)).stage == m.LATER


def test_why_a_run_did_not_come_about_is_said_to_whoever_comes() -> None:
    run = History()
    run.say(0, m.READY)
    run.say(1, m.READY, hello=HELLO._replace(host="n1", torch="1.0"))
    assert run.orders.stage == m.LEAVE
    assert answer(run, Status(0, "new key", 1, HELLO, m.READY)).stage == m.LEAVE


def test_where_ranks_are_given_out_the_host_tells() -> None:
    run = Elastic().start_two()
    run.say(0, m.DONE, 5.0)
    run.tell("a", m.DONE, 5.0)
    assert run.orders.stage == m.LEAVE
    early = Status(m.UNSEATED, "a again", 1, run.hello._replace(host="a"), m.LOOKING)
    assert answer(run, early).stage == m.LATER
    late = Status(m.UNSEATED, "c", 1, run.hello._replace(host="c"), m.LOOKING)
    assert answer(run, late).stage == m.LEAVE
