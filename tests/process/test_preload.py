"""--preload: forked workers are like started ones, and what cannot be forked is refused."""

import json
import py_compile
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.launcher import Run, worker

pytestmark = pytest.mark.programs  # each of them says itself how its workers are started

Launch = Callable[..., Run]
PRELOAD = ["--preload", "decimal"]

# Everything a script can easily see of how it was started.
SELF_PORTRAIT = """
import __main__, ctypes, json, os, signal, sys, threading
signals = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
print("portrait", json.dumps({
    "globals": sorted(name for name in globals() if name.startswith("__")),
    "main": [__name__, __file__, repr(__spec__ and __spec__.name), __package__, __cached__, __doc__],
    "is main": vars(__main__) is globals(),
    "loader": type(__loader__).__name__,
    "argv": [sys.argv, sys.orig_argv, sys.path, sys.executable, sys.flags[:]],
    "streams": [[s.fileno(), s.isatty(), s.encoding, s.errors, s.line_buffering, s.write_through]
                for s in (sys.stdin, sys.stdout, sys.stderr)],
    "signals": [repr(signal.getsignal(number)) for number in signals],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "place": [os.getcwd(), os.umask(0o22), os.nice(0), sorted(os.sched_getaffinity(0))],
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "threads": [thread.name for thread in threading.enumerate()],
    "environ": {name: value for name, value in os.environ.items()
                if name != "MASTER_PORT" and not name.endswith(("_ID", "_FILE"))},
    "getenv": libc.getenv(b"RANK").decode(),
    "hooks": [repr(sys.excepthook), repr(sys.unraisablehook), sys.gettrace()],
    "descriptors": len(os.listdir("/proc/self/fd")),
}))
"""


def portraits(run: Run) -> list[Any]:
    assert run.wait() == 0, run.err
    found = [json.loads(line.partition("portrait ")[2]) for line in run.out.splitlines()]
    return sorted(found, key=lambda one: int(one["environ"]["RANK"]))


@pytest.mark.parametrize("kind", ["path", "relative", "link", "module", "zip", "compiled", "safe path"])
def test_a_forked_worker_sees_what_a_started_one_sees(launch: Launch, tmp_path: Path, kind: str) -> None:
    here = tmp_path / "here"
    (here / "package").mkdir(parents=True)
    (here / "me.py").write_text('"""About me."""\n' + SELF_PORTRAIT)
    (here / "package" / "__init__.py").touch()
    (here / "package" / "me.py").write_text(SELF_PORTRAIT)
    (tmp_path / "link.py").symlink_to(here / "me.py")
    py_compile.compile(str(here / "me.py"), str(here / "me.pyc"))
    with zipfile.ZipFile(here / "me.zip", "w") as archive:
        archive.writestr("__main__.py", SELF_PORTRAIT)
    command = {
        "path": [str(here / "me.py"), "--lr", "a b"],
        "relative": ["./me.py"],
        "link": ["../link.py"],
        "module": ["-m", "package.me", "-x"],
        "zip": ["me.zip", "-y"],
        "compiled": ["me.pyc"],
        "safe path": ["me.py"],
    }[kind]
    env = {"PYTHONSAFEPATH": "1"} if kind == "safe path" else {}
    options = ["--nproc-per-node", "2", "--env", "A=1", "--numa-binding", "exclusive"]
    started = portraits(launch(*options, *command, cwd=here, env=env))
    forked = portraits(launch(*PRELOAD, *options, *command, cwd=here, env=env))
    assert len(started) == len(forked) == 2
    assert forked == started


ENDINGS = {
    "raise": "def f(): raise ValueError('boom')\nf()\n",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('x') from e\n",
    "syntax": "print('no'\nx = = 1\n",
    "exit 3": "import sys\ntry:\n    sys.exit(3)\nfinally:\n    print('finally')\n",
    "exit with words": "import sys\nsys.exit('the reason')\n",
    "exit None": "import sys\nsys.exit()\n",
    "interrupted": "raise KeyboardInterrupt\n",
    "own hook": "import sys\nsys.excepthook = lambda k, e, t: print('hook', k, e, t.tb_lineno)\n1 / 0\n",
    "broken hook": "import sys\nsys.excepthook = lambda *_: 1 / 0\nraise ValueError('boom')\n",
    "atexit": "import atexit\natexit.register(print, 'at exit')\nraise SystemExit(4)\n",
    "atexit that fails": "import atexit\natexit.register(lambda: 1 / 0)\n",
    "unraisable": "class A:\n    def __del__(self): raise ValueError('late')\nA()\nprint('on')\n",
    "abort": "import os\nos.abort()\n",
    "segfault": "import faulthandler\nfaulthandler._sigsegv()\n",
    "at once": "import os\nos._exit(9)\n",
    "a thread that lasts": "import threading\nthreading.Timer(0.2, print, ['late']).start()\n",
    "a thread that raises": "import threading\nthreading.Timer(0, lambda: 1 / 0).start()\n",
    "warning": "import warnings\nwarnings.warn('careful')\n",
    "nothing": "",
}


def without_identity(text: str) -> str:
    """Memory addresses, and the frames of ours that faulthandler, which looks at everything, has to show."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r'  File "[^"]*/ddplaunch/preload/.*\n(    .*\n)*', "", text)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_forked_worker_ends_as_a_started_one_ends(launch: Launch, tmp_path: Path, ending: str) -> None:
    script = tmp_path / "end.py"
    script.write_text(ENDINGS[ending])
    started, forked = launch("--output", "raw", str(script)), launch(*PRELOAD, "--output", "raw", str(script))
    assert forked.wait() == started.wait()
    assert forked.out == started.out

    def said(run: Run) -> str:
        return without_identity(run.err.partition("ddplaunch: first failure")[0])

    assert said(forked) == said(started)


def test_classes_of_the_script_travel_between_processes(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "travel.py"
    script.write_text(
        "import multiprocessing, os, pickle\n"
        "class Point:\n"
        "    def __init__(self, x): self.x = x\n"
        "def double(point): return Point(2 * point.x)\n"
        "if __name__ == '__main__':\n"
        "    assert pickle.loads(pickle.dumps(Point(1))).x == 1\n"
        "    for method in ('spawn', 'fork', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(2) as pool:\n"
        "            print(method, [p.x for p in pool.map(double, [Point(1), Point(2)])])\n"
    )
    run = launch(*PRELOAD, str(script))
    assert run.wait() == 0, run.err
    assert run.out == "spawn [2, 4]\nfork [2, 4]\nforkserver [2, 4]\n"


@pytest.mark.slow
def test_loaders_of_both_kinds(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "loaders.py"
    script.write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Squares(Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, n): return torch.tensor(n * n)\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'fork'):\n"
        "        loader = DataLoader(Squares(), 4, num_workers=2, multiprocessing_context=method)\n"
        "        print(method, [batch.tolist() for batch in loader])\n"
    )
    run = launch("--preload", "torch", "--nproc-per-node", "2", str(script))
    assert run.wait() == 0, run.err
    for rank in (0, 1):
        for method in ("spawn", "fork"):
            assert f"[{rank}] {method} [[0, 1, 4, 9], [16, 25, 36, 49]]" in run.out


def test_lines_that_forked_workers_ran_are_covered(launch: Launch, tmp_path: Path) -> None:
    """As coverage measures subprocesses: by what a .pth file, or sitecustomize, starts in each of them."""
    (tmp_path / "helper.py").write_text("def used():\n    return 1\ndef unused():\n    return 2\n")
    (tmp_path / "script.py").write_text(
        "import helper, os\nif os.environ['RANK'] == '1':\n    helper.used()\n"
    )
    (tmp_path / "sitecustomize.py").write_text("import coverage\ncoverage.process_startup()\n")
    (tmp_path / "rc").write_text(f"[run]\nparallel = true\ndata_file = {tmp_path}/.coverage\n")
    env = {"COVERAGE_PROCESS_START": str(tmp_path / "rc"), "PYTHONPATH": str(tmp_path)}
    run = launch("--preload", "helper", "--nproc-per-node", "2", "script.py", cwd=tmp_path, env=env)
    assert run.wait() == 0, run.err
    tool = [sys.executable, "-m", "coverage"]
    rc = f"--rcfile={tmp_path}/rc"
    subprocess.run([*tool, "combine", rc], cwd=tmp_path, check=True, capture_output=True)
    command = [*tool, "json", rc, "--include=helper.py,script.py", "-o", "-"]
    found = json.loads(subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout)
    missing = {
        name: facts["missing_lines"] for name, facts in found["files"].items() if "preload" not in name
    }
    assert missing == {"helper.py": [4], "script.py": []}


def test_ranks_are_seen_from_outside(launch: Launch) -> None:
    run = launch(*PRELOAD, "--nproc-per-node", "2", worker("sleep"), "an argument")
    for pid in run.wait_ready(2):
        shown = subprocess.run(
            ["ps", "-ww", "-o", "comm=,args=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
        rank = re.search(rf"ready pid={pid} rank=(\d)", run.out)
        assert rank is not None
        assert shown.stdout.split() == [
            *("rank", rank[1], "sleep.py", "[rank", f"{rank[1]}]"),
            *(sys.executable, "-u", worker("sleep"), "an", "argument"),
        ]
    run.send(signal.SIGTERM)
    assert run.wait() == 143


def test_modules_are_imported_once_from_the_scripts_directory_with_the_workers_variables(
    launch: Launch, tmp_path: Path
) -> None:
    (tmp_path / "heavy.py").write_text("import os\nprint('importing with', os.environ['OMP_NUM_THREADS'])\n")
    (tmp_path / "script.py").write_text(
        "import os, heavy\nprint('rank', os.environ['RANK'], heavy.__name__)\n"
    )
    options = ["--preload", "decimal,heavy", "--omp-threads", "3", "--nproc-per-node", "3"]
    run = launch(*options, str(tmp_path / "script.py"))
    assert run.wait() == 0, run.err
    assert sorted(run.out.splitlines()) == [
        *(f"[{rank}] rank {rank} heavy" for rank in range(3)),
        "importing with 3",
    ]


def test_random_numbers_differ_between_workers(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "random_numbers.py"
    script.write_text(
        "import numpy, random, torch, uuid\n"
        "print(random.random(), numpy.random.rand(), uuid.uuid4(), torch.rand(1).item())\n"
    )
    run = launch("--preload", "torch,random", "--nproc-per-node", "3", str(script))
    assert run.wait() == 0, run.err
    columns = list(zip(*(line.split()[1:] for line in run.out.splitlines()), strict=True))
    assert [len(set(column)) for column in columns] == [3, 3, 3, 3]


def test_a_function(environment: dict[str, str], tmp_path: Path) -> None:
    script = tmp_path / "call.py"
    (tmp_path / "beside.py").touch()
    script.write_text(
        "import ddplaunch, os, sys\n"
        "def work(x): return x, os.environ['RANK'], 'beside' in sys.modules\n"
        "print(ddplaunch.launch(work, (7,), nproc_per_node=2, preload='beside'))\n"
        "try: ddplaunch.launch(lambda: 1 / 0, nproc_per_node=2, preload=['decimal', 'json'])\n"
        "except ddplaunch.WorkerFailed as error: print(type(error.__cause__).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[(7, '0', True), (7, '1', True)]\nZeroDivisionError\n"


def test_a_script_on_a_pipe(launch: Launch) -> None:
    for options in ([], PRELOAD):
        run = launch(*options, "/dev/stdin", stdin=subprocess.PIPE)
        assert run.process.stdin is not None
        run.process.stdin.write(b"print('from a pipe')\n")
        run.process.stdin.close()
        assert (run.wait(), run.out) == (0, "from a pipe\n"), run.err


SEEN_BY_A_MODULE = """
import os, signal, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
child.terminate()
SEEN = [sys.argv, sys.path[0], sys.modules["__main__"].__name__, child.wait()]
os.environ["SET_BY_MODULE"] = os.environ.pop("TAKEN_BY_MODULE")
os.chdir("/")
"""


def test_a_module_may_look_around_and_leave_its_mark(launch: Launch, tmp_path: Path) -> None:
    """Whether it is imported by the preloader or by the script, beside which it stands."""
    (tmp_path / "looks.py").write_text(SEEN_BY_A_MODULE)
    (tmp_path / "script.py").write_text(
        "import looks, os\n"
        "names = ('SET_BY_MODULE', 'TAKEN_BY_MODULE')\n"
        "print(looks.SEEN, [os.environ.get(name) for name in names], os.getcwd(), __file__)\n"
    )
    command = ["--env", "TAKEN_BY_MODULE=7", "script.py", "an argument"]
    started, forked = launch(*command, cwd=tmp_path), launch("--preload", "looks", *command, cwd=tmp_path)
    assert (started.wait(), forked.wait()) == (0, 0), forked.err
    assert forked.out == started.out
    assert "-15" in forked.out


def test_variables_that_are_no_text_where_the_workers_live(launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "bytes.py"
    script.write_text("import os, sys\nprint(os.environb[b'X'], os.fsencode(sys.argv[1]))\n")
    plain = ["PYTHONUTF8=0", "LC_ALL=C", "PYTHONCOERCECLOCALE=0", "X=\udcff\u00e9"]
    options = [word for setting in plain for word in ("--env", setting)]
    run = launch(*PRELOAD, *options, str(script), "\u00e9")
    assert run.wait() == 0, run.err
    assert run.out == "b'\\xff\\xc3\\xa9' b'\\xc3\\xa9'\n"


def test_what_is_open_when_python_ends_is_written(launch: Launch, tmp_path: Path) -> None:
    """A script's files, and those of a module that was imported before the fork."""
    (tmp_path / "mylog.py").write_text("def start(path):\n    global file\n    file = open(path, 'w')\n")
    (tmp_path / "script.py").write_text(
        "import mylog, sys\n"
        "def make(name):\n    return open(f'{sys.argv[1]}/{name}', 'w')\n"
        "mylog.start(sys.argv[1] + '/of_module')\nmylog.file.write('module')\n"
        "file = make('of_script')\nfile.write('script')\n"
    )
    for number, modules in enumerate(("json", "json,mylog")):
        directory = tmp_path / str(number)
        directory.mkdir()
        run = launch("--preload", modules, "script.py", str(directory), cwd=tmp_path)
        assert run.wait() == 0, run.err
        assert [path.read_text() for path in sorted(directory.iterdir())] == ["module", "script"]
