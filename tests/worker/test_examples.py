"""Every example runs with several workers, and its result is right."""

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.support.launcher import Run

Launch = Callable[..., Run]

EXAMPLES = Path(__file__).parents[2] / "scripts" / "examples"


def example(name: str) -> str:
    return str(EXAMPLES / f"{name}.py")


def finish(run: Run) -> str:
    assert run.wait(120) == 0, run.err
    return run.out


def parameters(path: Path, part: str | None = None) -> torch.Tensor:
    state = torch.load(path, weights_only=True)
    state = state if part is None else state[part]
    return torch.cat([tensor.flatten() for _, tensor in sorted(state.items())])


def test_hello(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "4", example("hello")))
    assert sorted(out.splitlines()) == [f"[{rank}] world size: 4. I'm rank {rank}." for rank in range(4)]


def test_gloo_hello(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "3", example("gloo_hello")))
    assert sorted(re.findall(r"I'm rank (\d). Our ranks add up to (\d)", out)) == [
        (str(r), "3") for r in range(3)
    ]


def test_four_workers_train_like_one_process_on_the_whole_batch(
    launch: Launch, environment: dict[str, str], tmp_path: Path
) -> None:
    one, four = tmp_path / "one.pt", tmp_path / "four.pt"
    command = [sys.executable, example("toy"), "--save", str(one)]
    alone = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    out = finish(launch("--nproc-per-node", "4", example("toy"), "--save", str(four)))
    losses = re.findall(r"loss ([\d.]+) over all ranks", out)
    assert len(losses) == 4
    assert len(set(losses)) == 1
    assert re.findall(r"loss ([\d.]+) over all ranks", alone.stdout) == losses[:1]
    torch.testing.assert_close(parameters(four), parameters(one), rtol=0, atol=1e-5)


def test_checkpoint_leaves_no_file_and_all_load_the_same(launch: Launch, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    out = finish(launch("--nproc-per-node", "4", example("checkpoint"), env={"TMPDIR": str(place)}))
    sums = re.findall(r"rank (\d): loaded weights that add up to (-?[\d.]+)", out)
    assert sorted(rank for rank, _ in sums) == list("0123")
    assert len({total for _, total in sums}) == 1
    assert [path.name for path in place.iterdir() if not path.name.startswith("torchinductor_")] == []


def test_a_model_over_two_devices(launch: Launch) -> None:
    out = finish(launch("--nproc-per-node", "2", example("model_parallel")))
    assert "both halves are on cpu" in out
    assert len(set(re.findall(r"loss ([\d.]+) over all ranks", out))) == 1


def test_one_makes_the_data_and_the_shares_cover_it(launch: Launch, tmp_path: Path) -> None:
    out = finish(launch("--nproc-per-node", "4", example("zero_first"), "--data", str(tmp_path / "data.pt")))
    assert out.count("made the data") == 1
    assert out.count("found the data") == 3
    for epoch in (0, 1):
        shares = [set(found.split()) for found in re.findall(rf"epoch {epoch}: (.*)", out)]
        assert [len(share) for share in shares] == [25] * 4  # 103 // 4, and three are dropped
        assert len(set.union(*shares)) == 100


def test_a_legacy_script_runs_unchanged(launch: Launch) -> None:
    options = ("--nproc-per-node", "2", "--pass-local-rank", "underscore")
    out = finish(launch(*options, example("legacy"), "--epochs", "2"))
    found = re.findall(r"local rank (\d): weights (-?[\d.]+)", out)
    assert sorted(rank for rank, _ in found) == ["0", "1"]
    assert len({weights for _, weights in found}) == 1


def test_without_its_local_rank_the_report_says_how_to_pass_it(launch: Launch) -> None:
    run = launch("--nproc-per-node", "2", example("legacy"))
    assert run.wait() == 1
    assert "--pass-local-rank underscore" in run.err


def test_a_function_from_a_script(environment: dict[str, str]) -> None:
    command = [sys.executable, example("function")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.findall(r"rank (\d) says ([\d.]+)", done.stdout)
    assert [rank for rank, _ in found] == list("0123")
    assert len({pi for _, pi in found}) == 1
    assert float(found[0][1]) == pytest.approx(3.1416, abs=0.02)


@pytest.fixture(scope="module")
def undisturbed() -> torch.Tensor:
    """The parameters after an undisturbed run."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "digits.pt"
        options = ["--nproc-per-node", "2", example("digits"), "--epochs", "6", "--checkpoint", str(path)]
        subprocess.run([sys.executable, "-m", "ddplaunch", *options], check=True, stdout=subprocess.DEVNULL)
        return parameters(path, "model")


@pytest.mark.slow
def test_a_run_that_is_killed_half_way_and_restarted_ends_the_same(
    launch: Launch, tmp_path: Path, undisturbed: torch.Tensor
) -> None:
    path = tmp_path / "digits.pt"
    script = tmp_path / "killed.py"
    script.write_text(  # the third checkpoint is the last thing that rank 0 does in its first life
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "from ddplaunch.worker import World\n"
        "save, calls = World.save, []\n"
        "def count(world, *args):\n"
        "    save(world, *args)\n"
        "    calls.append(1)\n"
        "    if world.attempt == 0 and world.is_main and len(calls) == 3: os.kill(os.getpid(), 9)\n"
        "World.save = count\n"
        f"runpy.run_path({example('digits')!r}, run_name='__main__')\n"
    )
    options = ("--nproc-per-node", "2", "--max-restarts", "1")
    run = launch(*options, str(script), "--epochs", "6", "--checkpoint", str(path))
    out = finish(run)
    assert "restart 1 of 1" in run.err
    assert "going on from epoch 3, step 0" in out
    torch.testing.assert_close(parameters(path, "model"), undisturbed, rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_a_preempted_run_goes_on_where_all_ranks_stopped(
    launch: Launch, tmp_path: Path, undisturbed: torch.Tensor, signum: signal.Signals
) -> None:
    path = tmp_path / "digits.pt"
    words = (example("digits"), "--epochs", "6", "--checkpoint", str(path))
    run = launch("--nproc-per-node", "2", *words)
    run.wait_for("epoch  1 of 6")
    run.send(signum)
    assert run.wait() == (143 if signum == signal.SIGTERM else 0), run.err
    assert "asked to stop: all is in" in run.out
    again = launch("--nproc-per-node", "2", *words, "--resume")
    assert "going on from epoch" in finish(again)
    torch.testing.assert_close(parameters(path, "model"), undisturbed, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_workers(launch: Launch, tmp_path: Path) -> None:
    path = tmp_path / "digits.pt"
    words = (example("digits"), "--epochs", "1", "--checkpoint", str(path), "--resume")
    finish(launch("--nproc-per-node", "2", *words))
    saved = torch.load(path)
    torch.save({**saved, "epoch": 0, "seen": 22 * 2 * 32}, path)  # two workers, before the last of 23 steps
    out = finish(launch("--nproc-per-node", "3", *words))
    assert "going on from epoch 0, step 14" in out
    assert "epoch  1 of 1" in out


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text()
    names = {path.stem for path in EXAMPLES.glob("*.py")} - {"crash"}  # the README's failure
    assert {
        name for name in names if f'example("{name}")' not in text and f"example('{name}')" not in text
    } == set()


def test_two_hundred_kills_leave_no_half_checkpoint(environment: dict[str, str], tmp_path: Path) -> None:
    """A process that has torch loaded forks one after the other, and kills each while it saves."""
    script = Path(__file__).parents[1] / "support" / "save_and_kill.py"
    command = [sys.executable, str(script), str(tmp_path / "model.pt"), "200"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"200 kills, (\d+) different checkpoints, (\d+) while writing\n", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) > 20  # it did save
    assert int(found[2]) > 10  # and was killed in the middle of it
