"""CUDA_VISIBLE_DEVICES, read as torch reads it."""

import os
from collections.abc import Iterator

import pytest
import torch.cuda
from hypothesis import example, given
from hypothesis import strategies as st

from ddplaunch.plan.devices import VARIABLE, Card, Vendor, choose, detect_visible

NONE = Vendor("GPU", VARIABLE, ())


def cards(count: int) -> Vendor:
    found = tuple(Card(n, uuid=f"GPU-{n}{n}", parts=(f"MIG-{n}",)) for n in range(count))
    return Vendor("GPU", VARIABLE, found)


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
    assert detect_visible({VARIABLE: listed}, NONE).devices == devices


def test_unset_is_every_card_and_empty_is_none() -> None:
    assert detect_visible({}, cards(2)).devices == ("0", "1")
    assert detect_visible({VARIABLE: ""}, cards(2)).devices == ()


def test_a_duplicate_is_an_error() -> None:
    (problem,) = detect_visible({VARIABLE: "0,1,0"}, cards(4)).problems
    assert problem.what == "CUDA_VISIBLE_DEVICES=0,1,0 names 0 twice"


def test_a_card_that_does_not_exist_is_named() -> None:
    (problem,) = detect_visible({VARIABLE: "0,9"}, cards(4)).problems
    assert problem.what == "CUDA_VISIBLE_DEVICES=0,9: card 9 does not exist"
    assert detect_visible({VARIABLE: "0,9"}, NONE).problems == ()


def test_uuids_are_found_by_their_beginning() -> None:
    assert detect_visible({VARIABLE: "GPU-2,GPU-00"}, cards(3)).cards[0] == cards(3).cards[2]
    (problem,) = detect_visible({VARIABLE: "GPU-"}, cards(2)).problems
    assert problem.what == "CUDA_VISIBLE_DEVICES=GPU-: GPU- is the beginning of several UUIDs"
    (problem,) = detect_visible({VARIABLE: "GPU-7"}, cards(2)).problems
    assert problem.cause == "this machine has GPU-00, MIG-0, GPU-11, MIG-1"
    assert detect_visible({VARIABLE: "MIG-1"}, cards(2)).problems == ()


def test_choosing_goes_by_torchs_numbers() -> None:
    visible = detect_visible({VARIABLE: "2,0,3"}, cards(4))
    assert choose(visible, (2, 0), "--gpus 2,0").devices == ("3", "2")
    (problem,) = choose(visible, (1, 3), "--gpus 1,3").problems
    assert problem.what == "--gpus 1,3: there is no card 3"
    assert problem.cause == "CUDA_VISIBLE_DEVICES=2,0,3 shows 3 cards, numbered 0 to 2"


@pytest.mark.parametrize(
    ("variable", "listed", "devices"),
    [
        ("ASCEND_RT_VISIBLE_DEVICES", "0-2,5", ("0", "1", "2", "5")),
        ("ZE_AFFINITY_MASK", "0.0, 0.1", ("0.0", "0.1")),
        ("HIP_VISIBLE_DEVICES", "-1", ()),
        ("ROCR_VISIBLE_DEVICES", "GPU-a1,0", ("GPU-a1", "0")),
        ("HIP_VISIBLE_DEVICES", "", ()),
    ],
)
def test_other_vendors_lists(variable: str, listed: str, devices: tuple[str, ...]) -> None:
    found = detect_visible({variable: listed}, Vendor("GPU", variable, ()))
    assert (found.devices, found.problems, found.variable) == (devices, (), variable)


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
    found = detect_visible({VARIABLE: listed}, NONE)
    ours = () if found.problems else found.devices
    assert ours == tuple(map(str, torch.cuda._parse_visible_devices()))
