"""Bytes into lines."""

from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.output.lines import Tail, cut_lines, prefix_lines


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
