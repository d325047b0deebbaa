"""Refusals: one clear block, nothing started."""

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker

Launch = Callable[..., Run]
SummaryOf = Callable[..., tuple[Run, dict[str, Any]]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nproc-per-node", "0"], "--nproc-per-node '0' is not valid"),
        (["--nproc-per-node", "-1"], "--nproc-per-node '-1' is not valid"),
        (["--nproc-per-node", "abc"], "--nproc-per-node 'abc' is not valid"),
        (["--nnodes", "3", "--node-rank", "5"], "node ranks are 0 to 2"),
        (["--master-port", "65536"], "--master-port '65536' is not valid"),
        (["--nproc", "2"], "did you mean --nproc-per-node?"),
        (["--no-such-thing"], "no such option: --no-such-thing"),
        (["--grace"], "see ddplaunch --help"),
    ],
)
def test_bad_options(launch: Launch, arguments: list[str], said: str) -> None:
    run = launch(*arguments, worker("hello"))
    assert run.wait() == 2
    assert said in run.err
    assert run.err.startswith("ddplaunch: error: ")
    assert "Traceback" not in run.err
    assert run.out == ""


@pytest.mark.programs
def test_bad_scripts(launch: Launch, tmp_path: Path) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    plain = tmp_path / "plain.sh"
    plain.write_text("echo started\n")
    for arguments, said in [
        (["missing.py"], "cannot find the script missing.py"),
        ([str(directory)], "is a directory"),
        (["--no-python", str(plain)], "is not executable"),
        (["--no-python", "no-such-program-anywhere"], "no program of that name in PATH"),
        ([], "no training script given"),
    ]:
        run = launch(*arguments)
        assert (run.wait(), run.out) == (2, "")
        assert said in run.err


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_taken_port_names_its_holder(launch: Launch, family: socket.AddressFamily) -> None:
    with socket.create_server(
        ("127.0.0.1" if family == socket.AF_INET else "::1", 0), family=family
    ) as taken:
        port = taken.getsockname()[1]
        run = launch("--master-port", str(port), "--nproc-per-node", "2", worker("hello"))
        assert (run.wait(), run.out) == (3, "")
    assert run.err.startswith(f"ddplaunch: error: port {port} on this machine is already in use\n")
    assert f"cause: pid {os.getpid()} (" in run.err
    assert "listens on it" in run.err


def test_a_port_that_another_launcher_reserved(launch: Launch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    first = launch("--master-port", port, "--nproc-per-node", "2", worker("sleep"))
    first.wait_ready(2)
    second = launch("--master-port", port, "--nproc-per-node", "2", worker("hello"))
    assert second.wait() == 3
    assert f"cause: pid {first.pid} (python" in second.err
    assert "has reserved it for its workers" in second.err
    first.process.terminate()
    first.wait()


def test_a_port_in_time_wait_is_free(launch: Launch) -> None:
    """What a run that ended a second ago leaves behind."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first, and lingers
        client.recv(1)
        client.close()
    run = launch("--master-port", str(port), "--nproc-per-node", "2", worker("gloo"))
    assert run.wait() == 0, run.err
    assert run.out.count("sum 1") == 2


def test_two_launches_on_a_port_in_time_wait(launch: Launch) -> None:
    """Binding over leftovers is not strict: only one of them may have it all the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        client = socket.create_connection(("127.0.0.1", int(port)))
        server.accept()[0].close()
        client.recv(1)
        client.close()
    first = launch("--master-port", port, "--nproc-per-node", "2", worker("sleep"))
    first.wait_ready(2)
    second = launch("--master-port", port, "--nproc-per-node", "2", worker("hello"))
    assert second.wait() == 3
    assert f"cause: pid {first.pid} (python" in second.err
    first.process.terminate()
    first.wait()


def test_more_workers_than_cards(launch: Launch) -> None:
    run = launch("--nproc-per-node", "4", worker("hello"), env={"CUDA_VISIBLE_DEVICES": "1,2"})
    assert (run.wait(), run.out) == (3, "")
    assert "4 workers, but only 2 visible cards" in run.err


@pytest.mark.programs
def test_a_launcher_inside_a_worker(launch: Launch) -> None:
    inner = [sys.executable, "-m", "ddplaunch", "--nproc-per-node", "2", worker("hello")]
    run = launch("--nproc-per-node", "2", "--no-python", *inner)
    assert run.wait() == 3
    assert "started inside one of its own workers" in run.err
    assert "env -u DDPLAUNCH_RUN_ID ddplaunch" in run.err
    assert "workers get their own" not in run.err
    assert "ready" not in run.out


@pytest.mark.programs
def test_the_hint_for_a_run_inside_a_run_works(launch: Launch) -> None:
    inner = ["env", "-u", "DDPLAUNCH_RUN_ID", sys.executable, "-m", "ddplaunch", "--nproc-per-node", "2"]
    run = launch("--no-python", *inner, worker("hello"))
    assert run.wait() == 0, run.err
    assert run.out.count("ready") == 2


def test_all_problems_at_once(launch: Launch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        env = {"CUDA_VISIBLE_DEVICES": "0"}
        run = launch("--master-port", port, "--nproc-per-node", "2", "missing.py", env=env)
        assert run.wait() == 2
    assert [line.split(": ")[2].split()[0] for line in run.err.splitlines() if "error" in line] == [
        "cannot",
        "2",
        "port",
    ]


def test_refusals_write_the_summary(summary_of: SummaryOf) -> None:
    run, summary = summary_of("--nproc-per-node", "x", worker("hello"))
    assert (summary["outcome"], summary["exit_code"], run.process.returncode) == ("usage", 2, 2)
    run, summary = summary_of("--no-such-option", worker("hello"))
    assert (summary["outcome"], summary["reason"]) == ("usage", "no such option: --no-such-option")
    run, summary = summary_of("--nproc-per-node", "2", worker("hello"), env={"CUDA_VISIBLE_DEVICES": "0"})
    assert (summary["outcome"], summary["attempts"]) == ("preflight", [])


def test_a_summary_goes_through_links_and_into_pipes(launch: Launch, tmp_path: Path) -> None:
    target, link, fifo = tmp_path / "target.json", tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(target)
    os.mkfifo(fifo)
    assert launch("--summary-json", str(link), worker("hello")).wait() == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["outcome"] == "success"
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    assert launch("--summary-json", str(fifo), worker("hello")).wait() == 0
    assert json.loads(os.read(reader, 65536))["outcome"] == "success"
    os.close(reader)
    assert fifo.is_fifo()
    lonely = launch("--summary-json", str(fifo), worker("hello"))
    assert lonely.wait() == 0
    assert "cannot write the summary" in lonely.err


@pytest.mark.programs
def test_what_will_not_work_is_found_before_the_start(launch: Launch, tmp_path: Path) -> None:
    wrapped = ["--wrap", "no-such-wrapper", "--wrap-ranks", "1", "--nproc-per-node", "2"]
    for arguments, said in [
        (wrapped, "cannot find --wrap no-such-wrapper"),
        (["--summary-json", str(tmp_path / "gone" / "x.json")], "there is no directory"),
        (["--summary-json", str(tmp_path)], "it is a directory"),
        (["--nproc-per-node", "gpu"], "no GPU is visible"),
    ]:
        run = launch(*arguments, worker("hello"))
        assert (run.wait(), run.out) == (2, "")
        assert said in run.err


def test_names_do_not_write_on_the_screen(launch: Launch) -> None:
    run = launch("a\nb\x1b[31m.py")
    assert run.wait() == 2
    assert "cannot find the script a\\nb\\x1b[31m.py" in run.err


def test_a_temporary_directory_that_is_not_there(launch: Launch) -> None:
    run = launch(worker("dump"), env={"TMPDIR": "/nonexistent"})
    assert run.wait() == 0
    path = json.loads(run.out.removeprefix("dump "))["env"]["TORCHELASTIC_ERROR_FILE"]
    assert path.startswith("/tmp/ddplaunch-")


def test_debug_shows_where_it_came_from(launch: Launch) -> None:
    run = launch("--debug", "missing.py")
    assert run.wait() == 2
    assert run.err.startswith("Traceback (most recent call last):")
    assert "ddplaunch: error: cannot find the script missing.py" in run.err
