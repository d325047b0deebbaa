"""--dry-run computes and prints; it starts, binds and needs nothing."""

import json
import os
import socket
import subprocess
from collections.abc import Callable

import pytest

from tests.support.launcher import DDPLAUNCH, Run, worker

pytestmark = pytest.mark.programs

Launch = Callable[..., Run]


def test_two_machines_as_json(launch: Launch) -> None:
    run = launch(
        "--dry-run", "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "8",
        "--master-addr", "192.168.0.1", "--master-port", "12355", "--format", "json", "MNIST.py",
    )  # fmt: skip
    assert run.wait() == 0
    document = json.loads(run.out)
    assert (document["world_size"], len(document["workers"])) == (16, 16)
    for one in document["workers"]:
        assert int(one["env"]["RANK"]) == 8 * one["node_rank"] + one["local_rank"]
        assert one["env"]["MASTER_ADDR"] == "192.168.0.1"
        assert one["argv"][1:] == ["-u", "MNIST.py"]


def test_a_taken_port_is_not_touched(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = launch("--dry-run", "--master-port", str(taken.getsockname()[1]), "missing.py")
        assert (run.wait(), run.err) == (0, "")


def test_the_table(launch: Launch) -> None:
    run = launch("--dry-run", "--nnodes", "2", "--nproc-per-node", "2", "train.py")
    assert run.wait() == 0
    assert "4 workers on 2 nodes" in run.out
    assert "0 (this one)" in run.out
    assert "--nproc-per-node" in run.out
    assert run.out.splitlines()[-1].endswith(" -u train.py")


def test_shell_lines_run_as_pasted(launch: Launch, environment: dict[str, str]) -> None:
    run = launch(
        "--dry-run", "--format", "shell", "--nproc-per-node", "2", worker("dump"), "a b", "$HOME", "'"
    )
    assert run.wait() == 0
    for rank, line in enumerate(run.out.splitlines()):
        done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True, check=True)
        seen = json.loads(done.stdout.removeprefix("dump "))
        assert (seen["env"]["RANK"], seen["argv"]) == (str(rank), ["a b", "$HOME", "'"])


def test_a_reader_that_has_seen_enough(environment: dict[str, str]) -> None:
    for layout in ("table", "json", "shell"):
        command = f"{' '.join(DDPLAUNCH)} --dry-run --format {layout} --nproc-per-node 3000 x.py | head -1"
        command = f"set -o pipefail; {command}"
        done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, check=False)
        assert (done.returncode in (0, 141), done.stderr) == (True, b"")


def test_a_full_disk(launch: Launch) -> None:
    for question in (["--help"], ["--version"], ["--dry-run", "x.py"]):
        with open("/dev/full", "wb") as full:
            run = launch(*question, stdout=full)
            assert run.wait() == 1
        assert run.err == "ddplaunch: error: cannot write to stdout\n  cause: no space left on device\n"


def test_a_pipe_that_does_not_block_gets_everything(launch: Launch) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    run = launch("--dry-run", "--format", "json", "--nproc-per-node", "1000", "x.py", stdout=write)
    os.close(write)
    with open(read) as reader:
        assert len(json.load(reader)["workers"]) == 1000
    assert run.wait() == 0
