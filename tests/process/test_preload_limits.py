"""--preload: what cannot be forked is refused, and a preloader's own life and death."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.launcher import Run, worker
from tests.support.processes import children_of, find_marked, is_alive, read_of, wait_until

pytestmark = pytest.mark.programs  # each of them says itself how its workers are started
Launch = Callable[..., Run]
PRELOAD = ["--preload", "decimal"]


REFUSED = {
    "missing": ("", "module_that_is_not_there", "cannot import module_that_is_not_there"),
    "raises": ("1 / 0\n", "it", "ZeroDivisionError: division by zero ({path}, line 1)"),
    "syntax": ("x = = 1\n", "it", "SyntaxError: invalid syntax ({path}, line 1)"),
    "exits": ("import sys\nsys.exit('no')\n", "it", "SystemExit: no"),
    "dies": ("import os\nos._exit(3)\n", "it", "the preloader died while it imported\n  cause: exit code 3"),
    "is killed": ("import os\nos.kill(os.getpid(), 9)\n", "it", "cause: killed by SIGKILL"),
    "thread": (
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='feeder').start()\n",
        "it",
        "a thread was started by the import\n  cause: it would be missing in the workers",
    ),
    "cuda": (
        "import torch\ntorch.cuda._initialized = True\n",
        "it",
        "has initialised CUDA or its like\n  cause: a fork cannot use what its parent opened (torch.cuda",
    ),
    "openmp": (
        "import torch\ntorch.ones(1 << 20).add_(1)\n",
        "it",
        "has started OpenMP's threads\n  cause: torch has computed on several threads",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_forked_is_refused_with_the_reason(launch: Launch, tmp_path: Path, what: str) -> None:
    text, modules, said = REFUSED[what]
    (tmp_path / "it.py").write_text(text)
    script = tmp_path / "script.py"
    script.write_text("print('started')\n")
    for question in [["--check"]] if what == "openmp" else [[], ["--check"]]:
        run = launch(*question, "--preload", modules, "--omp-threads", "2", str(script))
        assert run.wait() == 3, run.err
        shown = run.err + run.out
        assert f"ddplaunch: error: --preload {modules}: " in shown
        assert said.format(path=tmp_path / "it.py") in shown
        assert "Traceback" not in shown
        assert "started\n" not in shown.replace("was started\n", "")


def test_a_card_that_is_open_is_refused(launch: Launch, tmp_path: Path) -> None:
    """Whoever opened it: it is the file that tells."""
    card = Path("/dev/nvidia-ddplaunch-test")
    try:
        os.mknod(card, 0o600 | 0o020000, os.makedev(1, 3))  # /dev/null by another name
    except OSError as error:
        pytest.skip(f"cannot make a device: {error}")
    try:
        (tmp_path / "opens.py").write_text(f"kept = open({str(card)!r})\n")
        script = tmp_path / "script.py"
        script.touch()
        run = launch("--preload", "opens", str(script))
        assert run.wait() == 3
        assert f"a fork cannot use what its parent opened ({card})" in run.err
    finally:
        card.unlink()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--no-python"], "--preload and --no-python contradict each other"),
        (["--wrap", "env"], "--preload and --wrap contradict each other"),
        (["--python", "/usr/bin/python3"], "--preload and --python /usr/bin/python3 contradict each other"),
        (["--preload", "a b"], "--preload 'a b' is not valid"),
        (["--preload", "torch,"], "--preload 'torch,' is not valid"),
    ],
)
def test_options_that_do_not_go_with_it(launch: Launch, options: list[str], said: str) -> None:
    run = launch(*PRELOAD, *options, worker("hello"))
    assert (run.wait(), run.out) == (2, "")
    assert said in run.err


def test_the_same_interpreter_by_name_is_fine(launch: Launch) -> None:
    run = launch(*PRELOAD, "--python", sys.executable, worker("hello"))
    assert run.wait() == 0, run.err


def test_daemon_threads_are_named(launch: Launch, tmp_path: Path) -> None:
    thread = "threading.Thread(target=time.sleep, args=(600,), name='pulse', daemon=True)"
    text = f"import threading, time\n{thread}.start()\n"
    (tmp_path / "watch.py").write_text(text)
    (tmp_path / "script.py").touch()
    run = launch("--preload", "watch", str(tmp_path / "script.py"))
    assert run.wait() == 0
    assert run.err == "ddplaunch: note: threads of the preload that workers do not have: pulse\n"


SLOW_IMPORT = "import sys, time\nprint('importing', flush=True)\ntime.sleep(600)\n"


@pytest.fixture
def importing(launch: Launch, tmp_path: Path) -> Callable[..., Run]:
    """A launcher whose preloader is in the middle of an import that takes long."""

    def start(*options: str) -> Run:
        (tmp_path / "endless.py").write_text(SLOW_IMPORT)
        (tmp_path / "script.py").touch()
        run = launch("--preload", "endless", *options, str(tmp_path / "script.py"))
        run.wait_for("importing")
        return run

    return start


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_importing_ends_the_launch(
    importing: Callable[..., Run], signum: signal.Signals, code: int, tmp_path: Path
) -> None:
    run = importing("--summary-json", str(tmp_path / "summary.json"))
    run.send(signal.SIGUSR1)  # stops nothing
    run.send(signum)
    assert run.wait(10) == code
    assert "while no worker was running" in run.err
    assert json.loads((tmp_path / "summary.json").read_text())["outcome"] == "interrupted"


def test_a_launcher_killed_while_importing_leaves_nothing(
    importing: Callable[..., Run], environment: dict[str, str]
) -> None:
    run = importing()
    run.send(signal.SIGKILL)
    mark = "DDP_TEST_MARK=" + environment["DDP_TEST_MARK"]
    wait_until(lambda: not find_marked(mark), "the preloader is gone", seconds=15)


def test_a_long_import_is_said_and_bounded(importing: Callable[..., Run], tmp_path: Path) -> None:
    run = importing("--timeout", "7", "--summary-json", str(tmp_path / "summary.json"))
    assert run.wait() == 124
    assert "ddplaunch: note: still importing endless, after " in run.err
    assert "--timeout was reached while importing endless" in run.err
    assert json.loads((tmp_path / "summary.json").read_text())["outcome"] == "timeout"


def preloader_of(run: Run) -> int:
    (found,) = [pid for pid in children_of(run.pid) if "ddplaunch preloader" in read_of(pid, "cmdline")]
    return found


def test_workers_outlive_their_preloader_and_restarts_have_a_new_one(launch: Launch) -> None:
    run = launch(*PRELOAD, "--max-restarts", "1", "--nproc-per-node", "2", worker("sleep"))
    first = run.wait_ready(2)
    preloader = preloader_of(run)
    os.kill(preloader, signal.SIGKILL)
    os.kill(first[0], signal.SIGKILL)
    second = run.wait_ready(4)[2:]
    assert not any(is_alive(pid) for pid in first)
    assert preloader_of(run) != preloader
    assert set(second) < set(children_of(run.pid))
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_signals_for_everybody_do_not_end_a_preloader(launch: Launch) -> None:
    """As a scheduler may send them; the next attempt still comes from it."""
    run = launch(*PRELOAD, "--max-restarts", "1", "--nproc-per-node", "2", worker("sleep"))
    first = run.wait_ready(2)
    preloader = preloader_of(run)
    for signum in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
        os.kill(preloader, signum)
    os.kill(first[0], signal.SIGKILL)
    run.wait_ready(4)
    assert preloader_of(run) == preloader
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_a_preloader_that_does_not_answer_does_not_deafen_the_launcher(launch: Launch) -> None:
    run = launch(*PRELOAD, "--max-restarts", "1", "--nproc-per-node", "2", worker("sleep"))
    first = run.wait_ready(2)
    os.kill(preloader_of(run), signal.SIGSTOP)
    os.kill(first[0], signal.SIGKILL)
    run.wait_for("ddplaunch: note: still waiting for rank 0 to be forked")
    run.send(signal.SIGTERM)
    assert run.wait() == 143, run.err


@pytest.mark.parametrize(("how", "code"), [("fails", 137), ("is interrupted", 143)])
def test_a_preloader_that_cannot_be_replaced(launch: Launch, tmp_path: Path, how: str, code: int) -> None:
    """The first one imports, the second one does not."""
    again = (
        "1 / 0" if how == "fails" else "import time; print('importing again', flush=True); time.sleep(600)"
    )
    mark = tmp_path / "mark"
    (tmp_path / "once.py").write_text(
        f"import os\nif os.path.exists({str(mark)!r}): {again}\nopen({str(mark)!r}, 'w').close()\n"
    )
    (tmp_path / "script.py").write_text(Path(worker("sleep")).read_text())
    options = ["--preload", "once", "--max-restarts", "1", "--nproc-per-node", "2"]
    run = launch(*options, str(tmp_path / "script.py"))
    first = run.wait_ready(2)
    os.kill(preloader_of(run), signal.SIGKILL)
    os.kill(first[0], signal.SIGKILL)
    if how == "is interrupted":
        run.wait_for("importing again")
        run.send(signal.SIGTERM)
    assert run.wait() == code, run.err
    assert "this is a bug" not in run.err
    assert "first failure: rank" in run.err


def test_orphans_are_reaped_also_without_a_preloader(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "print(f'ready pid={os.getpid()}')\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "for _ in range(5): os.system('(true &)')\n"
        "print('orphaned')\n"
        "signal.pause()\n"
    )
    run = launch(*PRELOAD, "--output", "prefix", str(script), str(tmp_path / "go"))
    run.wait_ready(1)
    os.kill(preloader_of(run), signal.SIGKILL)
    (tmp_path / "go").touch()
    run.wait_for("orphaned")
    wait_until(lambda: not zombies_of(run.pid), "nobody is left unreaped")
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def zombies_of(pid: int) -> list[str]:
    shown = subprocess.run(
        ["ps", "-o", "stat=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [line for line in shown.stdout.splitlines() if line.startswith("Z")]


def test_it_can_be_switched_off_for_one_launch(launch: Launch) -> None:
    run = launch("--preload", "none", "--no-python", "true", env={"DDPLAUNCH_PRELOAD": "decimal"})
    assert run.wait() == 0, run.err
