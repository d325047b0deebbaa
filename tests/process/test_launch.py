"""A plain launch: who starts, with what, and what the launcher does not load for it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import DDPLAUNCH, Run, worker

Launch = Callable[..., Run]
HEAVY = {"torch", "rich", "psutil", "zmq", "click", "asyncio", "logging", "argparse"}
LATE = {"json", "typing", "socket", "ctypes", "dataclasses", "inspect", "subprocess", "re"}


def dumps(run: Run) -> list[dict[str, Any]]:
    """What each worker saw, by rank."""
    found = [json.loads(line.partition("dump ")[2]) for line in run.out.splitlines() if "dump " in line]
    return sorted(found, key=lambda dump: int(dump["env"]["RANK"]))


def test_every_worker_runs_once(launch: Launch) -> None:
    run = launch("--nproc-per-node", "4", worker("hello"))
    assert run.wait() == 0
    assert sorted(line[:4] for line in run.out.splitlines()) == ["[0] ", "[1] ", "[2] ", "[3] "]
    assert run.err == ""


def test_workers_get_what_was_planned(launch: Launch) -> None:
    run = launch("--nproc-per-node", "3", worker("dump"), env={"RANK": "9", "MASTER_ADDR": "elsewhere"})
    assert run.wait() == 0
    seen = dumps(run)
    assert [dump["env"]["RANK"] for dump in seen] == ["0", "1", "2"]
    assert {dump["env"]["MASTER_ADDR"] for dump in seen} == {"127.0.0.1"}
    assert len({dump["env"]["MASTER_PORT"] for dump in seen}) == 1
    assert int(seen[0]["env"]["MASTER_PORT"]) > 0
    assert {dump["python"] for dump in seen} == {sys.executable}
    assert run.err == (
        "ddplaunch: note: ignored MASTER_ADDR=elsewhere, RANK=9 from the environment; workers get their own\n"
    )


def test_arguments_arrive_byte_for_byte(launch: Launch) -> None:
    arguments = [
        "--help",
        "--nproc-per-node",
        "9",
        "--",
        "--x=1",
        "a b",
        "",
        "--local-rank=5",
        "--r=16",
        "\udcff*",
    ]
    run = launch("--nproc-per-node", "2", worker("dump"), *arguments)
    assert run.wait() == 0
    assert [dump["argv"] for dump in dumps(run)] == [arguments, arguments]


@pytest.mark.parametrize("spelling", ["--nproc-per-node", "--nproc_per_node"])
def test_both_spellings(launch: Launch, spelling: str) -> None:
    run = launch(spelling, "2", worker("hello"))
    assert run.wait() == 0
    assert len(run.out.splitlines()) == 2


def test_a_module(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "__init__.py").touch()
    (tmp_path / "trainer" / "main.py").write_text("import sys\nprint(__name__, __package__, sys.argv[1:])\n")
    run = launch("-m", "trainer.main", "--lr", "1", cwd=tmp_path)
    assert run.wait() == 0
    assert run.out == "__main__ trainer ['--lr', '1']\n"


@pytest.mark.programs
def test_a_program_without_python(launch: Launch) -> None:
    run = launch("--no-python", "--nproc-per-node", "2", "sh", "-c", 'echo "rank $RANK of $WORLD_SIZE"')
    assert run.wait() == 0
    assert sorted(run.out.splitlines()) == ["[0] rank 0 of 2", "[1] rank 1 of 2"]


def test_the_local_rank_as_an_argument(launch: Launch) -> None:
    run = launch("--pass-local-rank", "underscore", "--nproc-per-node", "2", worker("dump"), "--x")
    assert run.wait() == 0
    assert [dump["argv"] for dump in dumps(run)] == [["--local_rank=0", "--x"], ["--local_rank=1", "--x"]]


@pytest.mark.programs
def test_wrapped_ranks(launch: Launch) -> None:
    wrapper = "env WRAPPED=yes_{rank}"
    run = launch("--wrap", wrapper, "--wrap-ranks", "1", "--nproc-per-node", "2", worker("dump"))
    assert run.wait() == 0
    assert [dump["env"].get("WRAPPED") for dump in dumps(run)] == [None, "yes_1"]


def test_variables_for_the_workers(launch: Launch) -> None:
    run = launch("--env", "A=1", "--env", "B=x y=z", "--omp-threads", "3", worker("dump"))
    assert run.wait() == 0
    (seen,) = dumps(run)
    assert [seen["env"][name] for name in ("A", "B", "OMP_NUM_THREADS")] == ["1", "x y=z", "3"]


def test_one_worker_has_the_launchers_stdin(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "read.py"
    script.write_text("import sys\nprint('got', sys.stdin.read())\n")
    run = launch(str(script), stdin=subprocess.PIPE)
    assert run.process.stdin is not None
    run.process.stdin.write(b"a line")
    run.process.stdin.close()
    assert run.wait() == 0
    assert run.out == "got a line\n"


def test_many_workers_read_nothing(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "read.py"
    script.write_text("import sys\nprint('got', repr(sys.stdin.read()))\n")
    run = launch("--nproc-per-node", "2", str(script), stdin=subprocess.PIPE)
    assert run.wait() == 0
    assert sorted(run.out.splitlines()) == ["[0] got ''", "[1] got ''"]
    assert run.process.stdin is not None
    run.process.stdin.close()


def test_a_hundred_workers_with_few_file_descriptors(launch: Launch, tmp_path: Path) -> None:
    def limit() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (128, 4096))

    script = tmp_path / "rank.py"
    script.write_text("import os\nprint(os.environ['RANK'])\n")
    run = launch("--nproc-per-node", "100", str(script), preexec_fn=limit)
    assert run.wait() == 0
    assert len(run.out.splitlines()) == 100


def test_no_run_directory_is_left(launch: Launch, tmp_path: Path) -> None:
    run = launch("--nproc-per-node", "2", worker("hello"), env={"TMPDIR": str(tmp_path)})
    assert run.wait() == 0
    assert [path for path in tmp_path.iterdir() if path.name.startswith("ddplaunch-")] == []


@pytest.mark.programs
def test_a_plain_launch_loads_nothing_heavy(environment: dict[str, str]) -> None:
    command = [sys.executable, "-X", "importtime", *DDPLAUNCH[1:], "--nproc-per-node", "2", worker("hello")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    modules = [line.rpartition("|")[2].strip() for line in lines]
    assert {module.split(".")[0] for module in modules} & HEAVY == set()
    before_the_first_worker = set(modules[: modules.index("ddplaunch.output.sink")])
    assert "ddplaunch.supervise.program" in before_the_first_worker
    assert before_the_first_worker & LATE == set()


@pytest.mark.programs
def test_python_m_and_the_console_script_are_the_same(environment: dict[str, str]) -> None:
    script = os.path.join(os.path.dirname(sys.executable), "ddplaunch")
    outputs = [
        subprocess.run(
            [*command, "--help"], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for command in ([script], DDPLAUNCH)
    ]
    assert outputs[0] == outputs[1]
