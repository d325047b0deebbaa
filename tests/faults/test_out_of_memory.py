"""SIGKILL by the kernel's out-of-memory killer is called that, and no other is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cgroups import can_make, cgroup, enter
from tests.support.launcher import Run

Launch = Callable[..., Run]


@pytest.mark.skipif(not can_make("memory"), reason="needs root and the memory controller of cgroup v1")
def test_out_of_memory_is_said_when_the_counter_moved(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "greedy.py"
    script.write_text(
        "import os, signal\n"
        "if os.environ['RANK'] == '0': signal.pause()\n"
        "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))\n"
    )
    with cgroup("memory", f"ddplaunch-test-{os.getpid()}") as group:
        (group / "memory.limit_in_bytes").write_text(str(120 << 20))
        run = launch("--nproc-per-node", "2", str(script), preexec_fn=lambda: enter(group, os.getpid()))
        assert run.wait() == 137
    assert "first failure: rank 1, killed by SIGKILL, out of memory: " in run.err
