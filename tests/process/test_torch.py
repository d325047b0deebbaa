"""Real torch, real gloo."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.launcher import Run, worker

ROOT = Path(__file__).parents[2]
Launch = Callable[..., Run]


def test_workers_meet(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", worker("gloo"))
    assert run.wait() == 0, run.err
    assert run.out.count("sum 3") == 3


def test_ten_launches_at_once_never_collide(launch: Launch) -> None:
    runs = [launch("--nproc-per-node", "2", worker("gloo")) for _ in range(10)]
    assert [run.wait(300) for run in runs] == [0] * 10, [run.err for run in runs]
    assert all(run.out.count("sum 1") == 2 for run in runs)


def test_the_demo_learns(launch: Launch, tmp_path: Path) -> None:
    checkpoint = tmp_path / "digits.pt"
    example = str(ROOT / "scripts" / "examples" / "digits.py")
    run = launch("--nproc-per-node", "2", example, "--checkpoint", str(checkpoint))
    assert run.wait(300) == 0, run.err
    found = re.search(r"test accuracy ([\d.]+)% after ([\d.]+) s on 2 workers", run.out)
    assert found is not None, run.out
    assert float(found[1]) > 95
    assert checkpoint.stat().st_size > 0


def test_the_demo_script_names_the_example() -> None:
    assert "scripts/examples/digits.py" in (ROOT / "scripts" / "demo").read_text()
    assert subprocess.run(["bash", "-n", ROOT / "scripts" / "demo"], check=False).returncode == 0
