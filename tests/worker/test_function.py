"""launch(fn): the same launcher for a function, from a script, a terminal or a notebook."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbclient
import nbformat
import pytest

import ddplaunch
from ddplaunch.function.options import render_options
from tests.support.launcher import Run
from tests.support.processes import wait_until

RunScript = Callable[..., Run]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """launch() gives its workers the environment of whoever calls it: here, of the test."""
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def script(environment: dict[str, str], tmp_path: Path) -> Iterator[RunScript]:
    """Run these lines as a script."""
    runs: list[Run] = []

    def start(text: str) -> Run:
        path = tmp_path / "script.py"
        path.write_text(text)
        runs.append(Run([sys.executable, "-u", str(path)], environment, tmp_path, cwd=tmp_path))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


def rank_and(value: object) -> tuple[int, object]:
    return int(os.environ["RANK"]), value


def fail_on(rank: int) -> None:
    if int(os.environ["RANK"]) == rank:
        raise KeyError(f"no batch for rank {rank}")


def test_results_come_by_rank() -> None:
    assert ddplaunch.launch(rank_and, args=("x",), nproc_per_node=3) == [(rank, "x") for rank in range(3)]
    assert ddplaunch.launch(rank_and, kwargs={"value": None}, nproc_per_node=1) == [(0, None)]


def test_as_the_readme_types_it(environment: dict[str, str]) -> None:
    call = "ddplaunch.launch(lambda: __import__('os').environ['RANK'], nproc_per_node=4)"
    line = f"import ddplaunch; print({call})"
    done = subprocess.run(
        [sys.executable, "-c", line], env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("['0', '1', '2', '3']\n", "")


def test_what_a_worker_raised_is_raised_here() -> None:
    with pytest.raises(ddplaunch.WorkerFailed, match="rank 2: exit code 1") as caught:
        ddplaunch.launch(fail_on, args=(2,), nproc_per_node=3)
    failed = caught.value
    assert (failed.rank, failed.exit_code, failed.outcome) == (2, 1, "worker-failed")
    assert "in fail_on" in failed.traceback
    assert "ddplaunch/function" not in failed.traceback
    assert failed.last_lines[-1] == failed.traceback.splitlines()[-1]
    assert repr(failed.__cause__) == repr(KeyError("no batch for rank 2"))


class Stubborn(Exception):  # noqa: N818
    """Cannot be made from its arguments, as some libraries' exceptions."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("stubborn")


def raise_stubborn() -> None:
    raise Stubborn(1, 2)


def exit_with(code: int) -> None:
    sys.exit(code)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def return_a_lock() -> object:
    import threading

    return threading.Lock()


@pytest.mark.parametrize(
    ("fn", "args", "code", "said"),
    [
        (raise_stubborn, (), 1, "Stubborn: stubborn"),
        (exit_with, (7,), 7, "exit code 7"),
        (kill_self, (), 137, "SIGKILL"),
        (return_a_lock, (), 1, "cannot pickle"),
    ],
)
def test_other_ways_to_fail(fn: Callable[..., object], args: tuple[int, ...], code: int, said: str) -> None:
    with pytest.raises(ddplaunch.WorkerFailed, match=said) as caught:
        ddplaunch.launch(fn, args, nproc_per_node=2)
    assert caught.value.exit_code == code


def test_an_early_exit_is_a_success_without_a_result() -> None:
    assert ddplaunch.launch(exit_with, (0,), nproc_per_node=2) == [None, None]


def test_a_launch_that_cannot_start() -> None:
    with pytest.raises(ddplaunch.LaunchFailed, match="--master-port '70000' is not valid") as caught:
        ddplaunch.launch(rank_and, (0,), nproc_per_node=2, master_port=70000)
    assert (caught.value.outcome, caught.value.exit_code) == ("usage", 2)
    with pytest.raises(TypeError, match="no option 'max_restart'; did you mean 'max_restarts'"):
        ddplaunch.launch(rank_and, (0,), max_restart=2)


def test_our_exceptions_can_be_pickled() -> None:
    failed = ddplaunch.WorkerFailed("rank 2: exit code 1", 1, 2, "Traceback", ["a", "b"])
    for error in (failed, ddplaunch.LaunchFailed("why", "usage", 2)):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_exported_settings_do_not_turn_a_call_into_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DDPLAUNCH_DRY_RUN", "DDPLAUNCH_CHECK", "PET_NO_PYTHON"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("DDPLAUNCH_PASS_LOCAL_RANK", "dash")
    monkeypatch.setenv("DDPLAUNCH_PREFIX", "<{rank}> ")
    assert ddplaunch.launch(rank_and, (0,), nproc_per_node=2) == [(0, 0), (1, 0)]


def test_options_are_the_command_lines() -> None:
    options = {
        "max_restarts": 2,
        "isolate_gpus": True,
        "debug": False,
        "env": {"A": 1, "B": "x y"},
        "gpus": [0, 3],
    }
    assert render_options(options) == [
        "--max-restarts", "2", "--isolate-gpus", "--env", "A=1", "--env", "B=x y", "--gpus", "0,3",
    ]  # fmt: skip
    assert render_options({"env": ["A=1", "B=2"], "standalone": 0}) == ["--env", "A=1", "--env", "B=2"]
    assert render_options({"wrap": ["nice", "-n 5"], "tee": 3}) == ["--wrap", "nice '-n 5'", "--tee", "3"]


def flaky() -> str:
    if os.environ["DDPLAUNCH_ATTEMPT"] == "0":
        sys.exit(3)
    return os.environ["DDPLAUNCH_ATTEMPT"]


def test_restarts_count() -> None:
    assert ddplaunch.launch(flaky, nproc_per_node=2, max_restarts=1) == ["1", "1"]


def test_what_workers_print_goes_where_the_caller_prints(capsys: pytest.CaptureFixture[str]) -> None:
    ddplaunch.launch(print, ("hello",), nproc_per_node=2)
    assert sorted(capsys.readouterr().out.splitlines()) == ["[0] hello", "[1] hello"]


def test_a_script_needs_no_guard_and_its_classes_stay_its_own(script: RunScript) -> None:
    run = script(
        "import os, ddplaunch\n"
        "print('once')\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "def helper(): return int(os.environ['RANK'])\n"
        "def work(): return Point(helper())\n"
        "points = ddplaunch.launch(work, nproc_per_node=2)\n"
        "print([p.x for p in points], all(isinstance(p, Point) for p in points))\n"
    )
    assert run.wait() == 0, run.err
    assert run.out.splitlines() == ["once", "[0, 1] True"]


def test_modules_beside_the_script_are_found(script: RunScript, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def work(): return __name__\n")
    run = script(
        "import ddplaunch, beside, os\n"
        "os.chdir('/')\n"
        "print(ddplaunch.launch(beside.work, nproc_per_node=2))\n"
    )
    assert run.wait() == 0, run.err
    assert run.out == "['beside', 'beside']\n"


def test_a_script_finds_itself_in_its_workers(script: RunScript, tmp_path: Path) -> None:
    """Arguments, classes that travel between workers, modules that no import finds, output in its order."""
    (tmp_path / "hidden.txt").write_text("def work(): return 'hidden'\n")
    (tmp_path / "json.py").write_text("raise SystemExit('not the one you are looking for')\n")
    run = script(
        "import sys\n"
        "sys.path.pop(0)\n"  # where json.py is
        "import importlib.machinery, importlib.util, ddplaunch\n"
        "sys.argv += ['--lr', '0.5']\n"
        "class Config: pass\n"
        "def travel():\n"
        "    import pickle\n"
        "    return type(pickle.loads(pickle.dumps(Config()))).__name__\n"
        "loader = importlib.machinery.SourceFileLoader('hidden', 'hidden.txt')\n"
        "hidden = importlib.util.module_from_spec(importlib.util.spec_from_loader('hidden', loader))\n"
        "sys.modules['hidden'] = hidden\n"
        "loader.exec_module(hidden)\n"
        "print('before')\n"
        "print(ddplaunch.launch(lambda: sys.argv[1:], nproc_per_node=1))\n"
        "print(ddplaunch.launch(travel, nproc_per_node=1))\n"
        "print(ddplaunch.launch(hidden.work, nproc_per_node=1))\n"
    )
    assert run.wait() == 0, run.err
    assert run.out.splitlines() == ["before", "[['--lr', '0.5']]", "['Config']", "['hidden']"]


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.06])
def test_a_caller_that_is_killed_early_leaves_nothing(
    script: RunScript, tmp_path: Path, delay: float
) -> None:
    run = script(
        "import subprocess, threading, time, os, ddplaunch\n"
        "started = subprocess.Popen\n"
        "def start(*args, **options):\n"
        "    process = started(*args, **options)\n"
        f"    threading.Timer({delay}, os.kill, (os.getpid(), 9)).start()\n"
        "    return process\n"
        "subprocess.Popen = start\n"
        "ddplaunch.launch(time.sleep, (600,), nproc_per_node=2, grace=2)\n"
    )
    assert run.wait() == -9  # and the test's mark is found nowhere afterwards


def test_a_caller_without_stdout(environment: dict[str, str]) -> None:
    line = "import ddplaunch, sys; print(ddplaunch.launch(len, ('abc',), nproc_per_node=2), file=sys.stderr)"
    command = f'exec "{sys.executable}" -c "{line}" >&-'
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == "[3, 3]\n"


WAITING = """
import os, signal, time, ddplaunch
def work():
    def stop(*_):
        print("stopped by SIGINT" if _[0] == signal.SIGINT else "stopped by SIGTERM")
        os._exit(0)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    print(f"ready pid={os.getpid()}")
    while True: time.sleep(0.05)
try:
    ddplaunch.launch(work, nproc_per_node=2)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_stops_the_workers(script: RunScript) -> None:
    run = script(WAITING)
    run.wait_ready(2)
    run.send(signal.SIGINT)
    assert run.wait() == 0
    assert run.out.count("stopped by SIGINT") == 2
    assert run.out.endswith("interrupted\n")


def test_a_caller_that_is_killed_takes_the_run_along(script: RunScript, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    run = script(f"import tempfile\ntempfile.tempdir = {str(place)!r}\n{WAITING}")
    run.wait_ready(2)
    assert list(place.iterdir()) != []
    run.send(signal.SIGKILL)
    run.wait()
    wait_until(lambda: run.out.count("stopped by SIGTERM") == 2, "both workers were asked to stop")
    wait_until(lambda: not list(place.iterdir()), "the call's directory is gone")


@pytest.mark.slow
def test_a_function_in_a_notebooks_cell() -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(
            "import os, ddplaunch\n"
            "scale = 10\n"
            "def work(offset):\n"
            "    print('at work')\n"
            "    return scale * int(os.environ['RANK']) + offset"
        ),
        nbformat.v4.new_code_cell("ddplaunch.launch(work, args=(3,), nproc_per_node=2)"),
    ]
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[1].outputs
    (result,) = [output for output in outputs if output.output_type == "execute_result"]
    assert result.data["text/plain"] == "[3, 13]"
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert sorted(printed.splitlines()) == ["[0] at work", "[1] at work"]


def test_the_package_itself_stays_light() -> None:
    """`import ddplaunch` is on the way of every launch."""
    line = "import sys, ddplaunch; print({'torch', 'typing', 'json', 'cloudpickle'} & set(sys.modules))"
    env = {"PYTHONPATH": str(Path(ddplaunch.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-S", "-c", line], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
