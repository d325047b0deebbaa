"""Host lists as Slurm writes them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddplaunch.cluster.hostlist import expand_hostlist


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("cn-[0001-0002]-[0-1]", ["cn-0001-0", "cn-0001-1", "cn-0002-0", "cn-0002-1"]),
        ("a[08-11,3]x,b", ["a08x", "a09x", "a10x", "a11x", "a3x", "b"]),
    ],
)
def test_host_lists(text: str, hosts: list[str]) -> None:
    assert expand_hostlist(text) == hosts


@pytest.mark.parametrize(
    "text", ["", "n[", "n]", "n[1", "n[[1]]", "n[a-b]", "n[3-1]", "n,,m", "n[0-999999]", "n[]"]
)
def test_host_lists_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        expand_hostlist(text)


@given(st.lists(st.integers(0, 9999), min_size=1, max_size=20, unique=True), st.integers(1, 6))
def test_host_lists_come_back(numbers: list[int], width: int) -> None:
    hosts = [f"n{number:0{width}}-x" for number in numbers]
    text = "n[" + ",".join(f"{number:0{width}}" for number in numbers) + "]-x"
    assert expand_hostlist(text) == hosts
