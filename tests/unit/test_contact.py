"""A node's contact to node 0, replayed without a network."""

from ddplaunch.nodes.contact import (
    Action,
    Broken,
    Call,
    Elapsed,
    Event,
    GiveUp,
    Miss,
    NotShaken,
    Phase,
    SayAgain,
    Scouted,
    SendScout,
    Shaken,
    State,
    Terms,
    Understood,
    begin,
    describe_waiting,
    step,
)

TERMS = Terms("n0", 29501, False, 12.0, 15.0)
REFUSED = "192.168.0.1: connection refused"


def replay(state: State, *events: Event) -> tuple[State, list[Action]]:
    seen: list[Action] = []
    for event in events:
        state, actions = step(state, event)
        seen += actions
    return state, seen


def talking(at: float = 1.0) -> State:
    events = (Elapsed(0.0), Scouted("192.168.0.1", "", False, at), Shaken(at), Understood(at))
    state, actions = replay(begin(TERMS, 0.0, 600.0), *events)
    assert actions == [SendScout(), Call("192.168.0.1"), SayAgain()]
    return state


def test_it_looks_until_somebody_answers_and_says_what_it_tried() -> None:
    state, actions = replay(begin(TERMS, 0.0, 600.0), Elapsed(0.0), Scouted("", REFUSED, True, 0.1))
    assert actions == [SendScout()]
    assert describe_waiting(state) == f"waiting for node 0 at n0:29501 ({REFUSED})"
    assert state.deadline is not None
    state, actions = replay(state, Elapsed(state.deadline))
    assert actions == [SendScout()]
    state, actions = replay(state, Scouted("192.168.0.1", "", False, 1.0))
    assert actions == [Call("192.168.0.1")]


def test_nobody_is_looked_for_longer_than_join_timeout() -> None:
    state, _ = replay(begin(TERMS, 0.0, 5.0), Elapsed(0.0), Scouted("", REFUSED, True, 0.1))
    state, actions = replay(state, Elapsed(5.0))
    assert isinstance(actions[0], GiveUp)
    assert actions[0].problem.exit_code == 4
    assert REFUSED in actions[0].problem.cause


def test_somebody_who_never_makes_sense_is_no_ddplaunch() -> None:
    calling, _ = replay(begin(TERMS, 0.0, 600.0), Elapsed(0.0), Scouted("192.168.0.1", "", False, 1.0))
    for strange in (
        NotShaken(False, False, 2.0),
        Shaken(2.0),
    ):  # no handshake; a handshake, and then no orders
        state, _ = replay(calling, strange, Broken(2.1))
        assert state.deadline is not None
        state, actions = replay(state, Elapsed(state.deadline))
        assert isinstance(actions[0], GiveUp)
        assert "answers, but not as node 0" in actions[0].problem.what


def test_a_silent_one_may_only_be_slow() -> None:
    calling, _ = replay(begin(TERMS, 0.0, 60.0), Elapsed(0.0), Scouted("192.168.0.1", "", False, 1.0))
    state, actions = replay(calling, NotShaken(False, True, 4.0), NotShaken(False, True, 7.0), Elapsed(10.9))
    assert actions == []
    assert describe_waiting(state) == "waiting for node 0 at n0:29501 (it answers, and then says nothing)"
    _, actions = replay(state, Elapsed(11.0))
    assert isinstance(actions[0], GiveUp)
    state, _ = replay(state, Shaken(10.5))
    _, actions = replay(state, Elapsed(40.0), Broken(40.1), Shaken(40.2), Elapsed(40.5))
    assert isinstance(actions[-1], GiveUp)  # it shakes hands, and never says a word


def test_who_is_gone_wants_nothing_more() -> None:
    state, _ = replay(talking(), Broken(10.0), Elapsed(22.0))
    assert state.deadline is None


def test_a_token_on_one_side_only_is_tried_often_enough_to_be_named_there() -> None:
    state, _ = replay(begin(TERMS, 0.0, 600.0), Elapsed(0.0), Scouted("192.168.0.1", "", False, 1.0))
    calls, at = 0, 1.1
    while state.phase is not Phase.GONE:
        state, _ = replay(state, NotShaken(True, False, at))
        assert state.deadline is not None
        at = state.deadline
        state, actions = replay(state, Elapsed(at))
        state, further = replay(state, Scouted("192.168.0.1", "", False, at))
        calls += Call("192.168.0.1") in further
    assert calls > 5
    assert isinstance(actions[-1], GiveUp)
    assert actions[-1].problem.cause == "node 0 has a DDPLAUNCH_TOKEN, and this node has none"


def test_a_broken_contact_is_waited_for_and_everything_said_again() -> None:
    state, actions = replay(talking(), Broken(10.0), Elapsed(10.0), Scouted("", "no answer", False, 12.0))
    assert actions == [SendScout()]
    assert state.phase is Phase.CUT
    state, actions = replay(state, Shaken(20.0))
    assert actions == [SayAgain()]
    state, actions = replay(state, Elapsed(100.0))
    assert actions == []


def test_silence_for_too_long_is_the_loss_of_node_0() -> None:
    state, _ = replay(talking(), Broken(10.0))
    _, actions = replay(state, Elapsed(21.9), Elapsed(22.0))
    assert actions[-1] == Miss("no sign of life within --heartbeat-timeout 15 s")


def test_a_port_that_nobody_listens_on_any_more_is_the_loss_of_node_0_sooner() -> None:
    state, _ = replay(talking(), Broken(10.0))
    state, actions = replay(state, Scouted("", REFUSED, True, 10.1), Scouted("", REFUSED, True, 11.0))
    assert actions == []
    reached = Scouted("192.168.0.1", "", False, 11.5)  # it was a moment
    state, actions = replay(state, reached, Scouted("", REFUSED, True, 12.0))
    assert actions == []
    _, actions = replay(state, Scouted("", REFUSED, True, 14.0))
    assert actions == [Miss("nobody listens there any more: its launcher is gone")]
