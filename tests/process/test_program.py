"""Starting a worker as a program, by either of the two ways there are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run, worker

pytestmark = pytest.mark.programs
Launch = Callable[..., Run]

# A Python that was built for an old C library has a posix_spawn that knows no sessions.
OLD_PYTHON = """
import os

def posix_spawn(*arguments, **options):
    raise NotImplementedError("posix_spawn: setsid unavailable on this platform")

os.posix_spawn = posix_spawn
"""


@pytest.fixture(params=["posix_spawn", "Popen"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Variables for the launcher that make it start workers so."""
    if request.param == "posix_spawn":
        return {}
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "sitecustomize.py").write_text(OLD_PYTHON)
    return {"PYTHONPATH": str(tmp_path / "old")}


def test_a_worker_leads_a_session_with_the_usual_signals(launch: Launch, way: dict[str, str]) -> None:
    """Python ignores SIGPIPE for itself: a program that inherited that would never end in `yes | head`."""
    text = 'grep -E "SigBlk|SigIgn" /proc/self/status; cut -d " " -f 6 /proc/$$/stat; echo $$'
    run = launch("--no-python", "--nproc-per-node", "2", "/bin/sh", "-c", text, env=way)
    assert run.wait() == 0, run.err
    for rank in range(2):
        said = [line[4:] for line in run.out.splitlines() if line.startswith(f"[{rank}]")]
        blocked, ignored, session, pid = [line.split()[-1] for line in said]
        assert (int(blocked, 16), session) == (0, pid)
        assert int(ignored, 16) & 0x7FFFFFFF == 0  # beyond are two of the C library's own


def test_what_the_launcher_inherited_is_not_passed_on(launch: Launch, way: dict[str, str]) -> None:
    read, write = os.pipe()
    text = "ls /proc/self/fd | wc -l; [ -e /proc/self/fd/$0 ] || echo hidden"
    run = launch("--no-python", "/bin/sh", "-c", text, str(write), pass_fds=(write,), env=way)
    assert run.wait() == 0, run.err
    assert run.out == "5\nhidden\n"  # three, the lifeline, and the directory that ls reads
    os.close(read)
    os.close(write)


def test_a_name_is_looked_for_where_the_worker_would(
    launch: Launch, tmp_path: Path, way: dict[str, str]
) -> None:
    tool = tmp_path / "tool-of-the-worker"
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    path = f"PATH={tmp_path}:/usr/bin:/bin"
    run = launch("--env", path, "--no-python", tool.name, env=way)
    assert (run.wait(), run.out) == (0, "found\n"), run.err


def test_a_program_that_cannot_be_executed(launch: Launch, tmp_path: Path, way: dict[str, str]) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/nowhere/at/all\n")
    broken.chmod(0o755)
    run = launch("--no-python", "--nproc-per-node", "2", str(broken), env=way)
    assert run.wait() == 3
    assert f"cannot start rank 0: {broken}\n  cause: no such file or directory" in run.err


def test_both_ways_the_launcher_takes_its_workers_along(launch: Launch, way: dict[str, str]) -> None:
    run = launch("--nproc-per-node", "2", worker("sleep"), env=way)
    run.wait_ready(2)
    run.process.kill()  # the fixture `nobody_left` sees whether somebody is
    run.wait()


# Nor does it have pidfds, if the kernel's headers were old as well.
WITHOUT_PIDFD = "import os, signal\ndel os.pidfd_open, signal.pidfd_send_signal\n"
# Or it has them, and the kernel is older.
OLD_KERNEL = """
import os

def pidfd_open(pid, flags=0):
    raise OSError(38, "function not implemented")

os.pidfd_open = pidfd_open
"""


@pytest.mark.parametrize("text", [WITHOUT_PIDFD, OLD_KERNEL], ids=["python", "kernel"])
@pytest.mark.parametrize("end", ["a worker fails", "the launcher is killed"])
def test_without_pidfds_nothing_is_left_either(launch: Launch, tmp_path: Path, text: str, end: str) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "sitecustomize.py").write_text(text)
    env = {"PYTHONPATH": str(tmp_path / "old")}
    script = "setsid sleep 600 & echo ready pid=$!; " + ("exit 9" if end == "a worker fails" else "sleep 600")
    run = launch("--no-python", "--nproc-per-node", "2", "/bin/sh", "-c", script, env=env)
    run.wait_ready(2)
    if end == "the launcher is killed":
        run.process.kill()
        run.wait()  # what is left now, `nobody_left` sees
    else:
        assert run.wait() == 9
        assert "first failure: rank" in run.err


def test_a_variable_without_a_name(launch: Launch) -> None:
    """Shells pass `=x` on; no program can be started with it from here."""
    run = launch("--no-python", "/bin/sh", "-c", "echo fine", env={"": "x"})
    assert (run.wait(), run.out) == (0, "fine\n"), run.err
