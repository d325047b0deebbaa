"""Bytes into lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.output.lines import (
    Tail,
    cut_at_most,
    cut_lines,
    fit_to_width,
    prefix_lines,
    settle_bars,
)


@given(st.lists(st.binary(max_size=20)))
def test_nothing_is_lost_or_reordered(chunks: list[bytes]) -> None:
    pending, out = b"", b""
    for chunk in chunks:
        block, pending = cut_lines(pending, chunk)
        assert block == b"" or block.endswith(b"\n")
        assert b"\n" not in pending
        out += block
    assert out + pending == b"".join(chunks)


@given(st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), min_size=1))
def test_each_line_gets_its_prefix(lines: list[bytes]) -> None:
    block = b"".join(line + b"\n" for line in lines)
    assert prefix_lines(block, b"[0] ") == b"".join(b"[0] " + line + b"\n" for line in lines)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_a_tail_is_the_end_of_what_came(chunks: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert whole.endswith(bytes(tail._kept[-limit:]))
    assert min(len(whole), limit) <= len(tail._kept) <= 2 * limit


def test_a_tail_shows_whole_lines() -> None:
    tail = Tail(12)
    tail.add(b"first line\nsecond\nthird\n")
    assert tail.lines() == ["third"]
    tail.add(b"x" * 30)
    assert tail.lines() == ["x" * 12]


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (b"plain\n", b"plain\n"),
        (b"dos\r\ntext\r\n", b"dos\r\ntext\r\n"),
        (b"\r 10%\r 50%\r100%\nnext\n", b"100%\nnext\n"),
        (b"step 1\rstep 2\rstep 3\r\n", b"step 3\r\n"),
        (b"before\n\r 10%\r 20%", b"before\n 20%"),
        (b"\r 99%\r     \rdone\n", b"done\n"),
        (b"", b""),
    ],
)
def test_a_bar_leaves_its_last_state(written: bytes, left: bytes) -> None:
    assert settle_bars(written) == left


@given(st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n"])).map(b"".join))
def test_settling_keeps_the_lines_and_may_be_done_piece_by_piece(written: bytes) -> None:
    settled = settle_bars(written)
    assert settled.count(b"\n") == written.count(b"\n")
    assert settle_bars(settled) == settled
    for cut in range(len(written)):
        assert settle_bars(settle_bars(written[:cut]) + written[cut:]) == settled


def test_bars_are_cut_to_one_row_and_keep_their_colours() -> None:
    assert fit_to_width(b"short", 80) == b"short"
    assert fit_to_width("█".encode() * 100, 10) == "█".encode() * 9
    assert fit_to_width(b"\x1b[36m[0]\x1b[0m " + b"x" * 50, 10) == b"\x1b[36m[0]\x1b[0m xxxxx"


def test_whole_lines_that_fit() -> None:
    assert [cut_at_most(b"aa\nbb\n", room) for room in (9, 6, 5, 3, 2, 0, -4)] == [6, 6, 3, 3, 0, 0, 0]
