"""What comes over the wire is one of our messages, or nothing."""

import json
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.errors import Problem
from ddplaunch.nodes.messages import (
    FAILED,
    READY,
    RUNNING,
    START,
    Account,
    Ending,
    Hello,
    Orders,
    Status,
    Verdict,
    is_sane,
)
from ddplaunch.nodes.wire import VERSION, BadMessageError, decode, encode, is_portable
from ddplaunch.report.model import Failure, WorkerRecord
from ddplaunch.report.stacks import Frame, Standing

HELLO = Hello(
    "n1", "launch", 2, 2, 29500, 0, "", "train.py", "ab", "cd", "2.13", "3.11", "1", 30.0, 0.0, 600.0
)
WORKER = WorkerRecord(1, 1, 1, "n1", 42, -9, 1.5, False)
FAILURE = Failure(WORKER, ("Traceback", "boom"), "stderr", {"message": {"any": [1, None]}}, "", (0,))
STANDING = Standing((0, 1), "all_reduce, train.py:3", (Frame("train.py", 3, "train"),))
STATUS = Status(
    1,
    "key",
    3,
    HELLO,
    RUNNING,
    ending=Ending("problem", 0.5, problems=(Problem("what", "cause", "hint", 3),)),
    account=Account((WORKER,), 2.0, FAILURE, (STANDING,), True),
)
SANE = STATUS._replace(ending=Ending(FAILED, 0.5, 1, -9))
ORDERS = Orders(4, START, "run", 1, (2, 2), verdict=Verdict("worker-failed", 7, "x", FAILURE, (STANDING,)))


@pytest.mark.parametrize("message", [STATUS, ORDERS, Status(0, "k", 1, HELLO, READY)])
def test_messages_come_back_as_they_were(message: Status | Orders) -> None:
    assert decode(encode(message), type(message)) == message


@given(st.binary(max_size=300))
def test_noise_is_no_message(noise: bytes) -> None:
    with pytest.raises(BadMessageError):
        decode(noise, Status)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.sampled_from(sorted(STATUS._fields)), _json)
def test_a_message_with_something_else_in_a_field_is_none_or_means_it(field: str, value: object) -> None:
    document = json.loads(encode(STATUS))
    document["body"][field] = value
    try:
        read = decode(json.dumps(document).encode(), Status)
    except BadMessageError:
        return
    assert json.loads(encode(read))["body"][field] == pytest.approx(value)


def test_every_damaged_byte_is_noticed_or_harmless() -> None:
    data, chance = encode(STATUS), random.Random(6)
    for _ in range(3000):
        place = chance.randrange(len(data))
        damaged = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
        with suppress(BadMessageError):
            assert isinstance(decode(damaged, Status), Status)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"version": ' + b"9" * 500_000 + b"}",
        b'{"version": 1, "type": "Status", "body": {"node": NaN}}',
        b'{"version": true, "type": "Status", "body": {}}',
        encode(ORDERS),
    ],
    ids=["deep", "a number of half a million digits", "NaN", "true is not 1", "orders"],
)
def test_traps(data: bytes) -> None:
    with pytest.raises(BadMessageError):
        decode(data, Status)


def test_another_version_is_told_apart_from_noise() -> None:
    document = json.loads(encode(STATUS))
    document["version"] = VERSION + 1
    with pytest.raises(BadMessageError) as caught:
        decode(json.dumps(document).encode(), Status)
    assert caught.value.version == VERSION + 1


@pytest.mark.parametrize(
    "status",
    [
        STATUS._replace(stage="asleep"),
        STATUS._replace(node=-1),
        STATUS._replace(node=2),
        STATUS._replace(interrupted=99999),
        STATUS._replace(interrupted=-5),
        STATUS._replace(attempt=-1),
        STATUS._replace(hello=HELLO._replace(nproc=0)),
        STATUS._replace(hello=HELLO._replace(nproc=10**9)),
        STATUS._replace(hello=HELLO._replace(nnodes=10**9)),
        STATUS._replace(hello=HELLO._replace(grace_seconds=-1.0)),
        STATUS._replace(ending=Ending("lost", 0.0)),
        STATUS._replace(ending=Ending(FAILED, -1.0, 1, 7)),
        STATUS._replace(ending=Ending(FAILED, 0.0, 1, 10**6)),
        STATUS._replace(ending=Ending(FAILED, 0.0, 1, 0)),
        STATUS._replace(ending=Ending("signal", 0.0)),
        STATUS._replace(ending=Ending("problem", 0.0)),
        STATUS._replace(ending=Ending("problem", 0.0, problems=(Problem("x", exit_code=256),))),
    ],
)
def test_what_no_launcher_says_is_not_listened_to(status: Status) -> None:
    assert is_sane(SANE)
    assert not is_sane(status)


@pytest.mark.parametrize("strange", [{"a": float("nan")}, {"a": 10**30}, {"a": {1, 2}}, {1: "a"}])
def test_what_would_not_come_back_as_it_was_is_not_sent(strange: object) -> None:
    assert is_portable({"message": {"message": "boom", "list": [1, 2.5, None]}})
    assert not is_portable(strange)
