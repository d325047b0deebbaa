"""CUDA_VISIBLE_DEVICES, read as torch reads it."""

import os
from collections.abc import Iterator

import pytest
import torch.cuda
from hypothesis import example, given
from hypothesis import strategies as st

from ddplaunch.plan.devices import VARIABLE, detect_visible


@pytest.mark.parametrize(
    ("listed", "devices"),
    [
        ("0,3", ("0", "3")),
        ("2,0", ("2", "0")),
        ("", ()),
        ("-1", ()),
        ("0,-1,2", ("0",)),
        ("1gpu2,2ampere", ("1", "2")),
        (" 0 , 1 ", ("0", "1")),
        ("GPU-aa,GPU-bb", ("GPU-aa", "GPU-bb")),
        ("MIG-aa", ("MIG-aa",)),
        ("GPU-aa,1", ("GPU-aa",)),
        ("NoDevFiles", ()),
        ("9" * 5000, ()),
    ],
)
def test_forms(listed: str, devices: tuple[str, ...]) -> None:
    assert detect_visible({VARIABLE: listed}, 0).devices == devices


def test_unset_is_every_card_and_empty_is_none() -> None:
    assert detect_visible({}, 2).devices == ("0", "1")
    assert detect_visible({VARIABLE: ""}, 2).devices == ()


def test_a_duplicate_is_an_error() -> None:
    (problem,) = detect_visible({VARIABLE: "0,1,0"}, 4).problems
    assert problem.what == "CUDA_VISIBLE_DEVICES=0,1,0 names 0 twice"


def test_a_card_that_does_not_exist_is_named() -> None:
    (problem,) = detect_visible({VARIABLE: "0,9"}, 4).problems
    assert problem.what == "CUDA_VISIBLE_DEVICES=0,9: card 9 does not exist"
    assert detect_visible({VARIABLE: "0,9"}, 0).problems == ()


@pytest.fixture
def visible_variable() -> Iterator[None]:
    before = os.environ.pop(VARIABLE, None)
    yield
    os.environ.pop(VARIABLE, None)
    if before is not None:
        os.environ[VARIABLE] = before


_entries = st.one_of(
    st.integers(-2, 9).map(str), st.sampled_from(["GPU-a", "GPU-b", "MIG-a", "", " 1", "2x", "+3", "x"])
)


@pytest.mark.usefixtures("visible_variable")
@given(st.lists(_entries, max_size=5).map(",".join))
@example("0,1,1,-1,x")
def test_torch_reads_it_the_same(listed: str) -> None:
    os.environ[VARIABLE] = listed
    found = detect_visible({VARIABLE: listed}, 0)
    ours = () if found.problems else found.devices
    assert ours == tuple(map(str, torch.cuda._parse_visible_devices()))
