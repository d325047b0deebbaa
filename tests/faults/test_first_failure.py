"""The first failure is the worker that had a reason, also when its victims are gone before it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]


@pytest.mark.parametrize("reason", ["print", "record"])
def test_who_misses_its_peer_is_not_the_first_failure(launch: Launch, tmp_path: Path, reason: str) -> None:
    summary = tmp_path / "summary.json"
    run = launch("--nproc-per-node", "2", "--summary-json", str(summary), worker("misses_peer"), reason)
    assert run.wait() == 1
    block = run.err[run.err.index("ddplaunch: first failure") :]
    assert block.startswith("ddplaunch: first failure: rank 1, an exception, stopped by the launcher while")
    assert "  others: rank 0 failed too (exit code 1)\n" in block
    assert block.endswith("ValueError: the real reason\n")
    told = json.loads(summary.read_text())
    assert (told["exit_code"], told["first_failure"]["rank"]) == (1, 1)
