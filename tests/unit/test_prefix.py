"""Templates of what stands before a line."""

import pytest

from ddplaunch.output.prefix import check_template, fill_template

VALUES = {"rank": " 3", "local_rank": "1", "node": "0", "host": "n0", "stream": "stdout", "time": "12:34:56"}


def test_fields_are_filled_in() -> None:
    template = check_template("{time} {host}/{node} {local_rank} {stream} {rank}|")
    assert fill_template(template, VALUES, None) == b"12:34:56 n0/0 1 stdout  3|"
    assert fill_template("{{x}} ", VALUES, None) == b"{x} "


def test_colour_goes_by_rank_and_leaves_the_space_plain() -> None:
    assert fill_template("[{rank}] ", VALUES, 0) == b"\x1b[36m[ 3]\x1b[0m "
    assert fill_template("", VALUES, 0) == b""


@pytest.mark.parametrize("wrong", ["{rnak} ", "{", "{rank!r}", "{rank:>5}", "{}", "{0}", "{rank.x}", "a\nb"])
def test_mistakes_are_told(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected text with any of"):
        check_template(wrong)
