"""Real torch, real gloo."""

from collections.abc import Callable

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]
pytestmark = pytest.mark.torch


def test_workers_meet(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", worker("gloo"))
    assert run.wait() == 0, run.err
    assert run.out.count("sum 3") == 3


def test_ten_launches_at_once_never_collide(launch: Launch) -> None:
    runs = [launch("--nproc-per-node", "2", worker("gloo")) for _ in range(10)]
    assert [run.wait(300) for run in runs] == [0] * 10, [run.err for run in runs]
    assert all(run.out.count("sum 1") == 2 for run in runs)
