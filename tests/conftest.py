"""Every test starts with a clean environment and must leave no process behind."""

import fcntl
import json
import os
import signal
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import DDPLAUNCH, Run
from tests.support.processes import find_marked, is_alive, wait_until

_FOREIGN = ("SLURM_", "OMPI_", "PMI_", "PET_", "CUDA_", "DDPLAUNCH_", "TORCHELASTIC_")
_USUALLY: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}
_RANKS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"}


def pytest_configure() -> None:
    """Under nohup, and in the background of a script, signals are ignored: launchers would inherit that."""
    for signum, usual in _USUALLY.items():
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, usual)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that cannot run here is skipped with its reason; in CI that is a failure."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
    return report


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, kind)
        yield


@pytest.fixture(autouse=True)
def in_company(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests may run beside each other, but one that is marked `alone` measures the machine.

    It closes the gate, and then waits for those that are inside.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    gate, room = shared / "gate", shared / "room"
    if request.node.get_closest_marker("alone"):
        with _locked(gate, fcntl.LOCK_EX), _locked(room, fcntl.LOCK_EX):
            yield
        return
    with ExitStack() as held:
        with _locked(gate, fcntl.LOCK_EX):
            held.enter_context(_locked(room, fcntl.LOCK_SH))
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is said of workers holds however they are started: these groups run twice."""
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    group = metafunc.definition.path.parent.name
    if group in ("process", "faults") and "programs" not in marks:
        module = "torch" if "torch" in marks else "decimal"
        metafunc.parametrize("preload", [None, module], ids=["", "preload"], indirect=True)


@pytest.fixture
def preload(request: pytest.FixtureRequest) -> str | None:
    """What workers are forked from; None: they are started as programs."""
    return getattr(request, "param", None)


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory, preload: str | None) -> dict[str, str]:
    """What a user's shell has, without what this machine or its scheduler left in it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name not in _RANKS and name not in ("VIRTUAL_ENV", "NO_COLOR")
    }
    meeting = str(tmp_path_factory.mktemp("meeting"))
    if preload is not None:
        kept["DDPLAUNCH_PRELOAD"] = preload
    return {**kept, "DDP_TEST_MARK": uuid.uuid4().hex, "DDP_TEST_DIRECTORY": meeting}


@pytest.fixture(autouse=True)
def nobody_left(environment: dict[str, str]) -> Iterator[None]:
    """Whatever a test started carries its mark; all of it must be gone at the end."""
    mark = "DDP_TEST_MARK=" + environment["DDP_TEST_MARK"]
    yield
    try:
        wait_until(lambda: not find_marked(mark), "every process of the test is gone", seconds=15)
    except AssertionError:
        left = {pid: _command_of(pid) for pid in find_marked(mark)}
        for pid in left:
            if is_alive(pid):
                os.kill(pid, 9)
        pytest.fail(f"left behind: {left}")


@pytest.fixture
def launch(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Start the launcher with these arguments; `env` adds variables, the rest goes to Popen."""
    runs: list[Run] = []

    def start(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Run:
        directory = tmp_path / f"launch_{len(runs)}"
        directory.mkdir()
        command = [*DDPLAUNCH, *map(str, arguments)]
        runs.append(Run(command, {**environment, **(env or {})}, directory, **options))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


@pytest.fixture
def summary_of(launch: Callable[..., Run], tmp_path: Path) -> Callable[..., tuple[Run, dict[str, Any]]]:
    """Run to the end and read the summary file."""

    def run(*arguments: str, **options: Any) -> tuple[Run, dict[str, Any]]:
        path = tmp_path / "summary.json"
        run = launch("--summary-json", str(path), *arguments, **options)
        run.wait()
        return run, json.loads(path.read_text())

    return run


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "?"
