"""What the measured workers do, as scripts in a directory.

Every worker says `up`, and those that are to wait hold on until the file of the benchmark is unlocked.
"""

from pathlib import Path

_RANK = "import os\nrank = int(os.environ.get('RANK') or os.environ['OMPI_COMM_WORLD_RANK'])\n"
_HOLD = "import fcntl\nfcntl.flock(open(sys.argv[1]), fcntl.LOCK_SH)\n"
_GLOO = (
    "import os, sys\n"
    "os.environ.setdefault('RANK', os.environ.get('OMPI_COMM_WORLD_RANK', '0'))\n"
    "import torch, torch.distributed as dist\n"
    "dist.init_process_group('gloo')\n"
    "dist.all_reduce(torch.ones(1))\n"
)

SCRIPTS = {
    "hello": "import os\nos.write(1, b'up\\n')\n",
    "hold": "import os, sys\nos.write(1, b'up\\n')\n" + _HOLD,
    "job": _GLOO + "os.write(1, b'up\\n')\n" + _HOLD + "os._exit(0)\n",
    "crash": "import sys, signal\n"
    + _RANK
    + "os.write(1, b'up\\n')\n"
    + "if rank == 1:\n    import fcntl\n    fcntl.flock(open(sys.argv[1]), fcntl.LOCK_SH)\n    os._exit(1)\n"
    + "signal.pause()\n",
    "sleep": "import os, signal\nos.write(1, b'up\\n')\nsignal.pause()\n",
    # Attempt 0 crashes when all have met; the time between the crash and the next meeting is what counts.
    "restart": _GLOO
    + "import time\n"
    + "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
    + "    dist.barrier()\n"
    + "    if dist.get_rank() == 1:\n"
    + "        open(sys.argv[1], 'w').write(str(time.monotonic()))\n"
    + "        os._exit(1)\n"
    + "    time.sleep(600)\n"
    + "if dist.get_rank() == 1:\n    os.write(1, b'again %f\\n' % time.monotonic())\n"
    + "dist.barrier()\nos._exit(0)\n",
    "blast": (
        "import os, sys\n"
        "lines = b''.join(b'%06d ' % n + b'x' * 92 + b'\\n' for n in range(655))\n"
        "left = int(sys.argv[1]) << 20\n"
        "while left > 0:\n"
        "    left -= os.write(1, lines[:left])\n"
    ),
    "clock": (
        "import time\nfor n in range(400):\n    print(time.monotonic(), 'x' * 60)\n    time.sleep(0.005)\n"
    ),
}


ENDLESS = frozenset({"sleep", "crash"})  # somebody has to end them


def write_scripts(directory: Path) -> dict[str, str]:
    paths = {name: directory / f"{name}.py" for name in SCRIPTS}
    for name, path in paths.items():
        path.write_text(SCRIPTS[name])
    return {name: str(path) for name, path in paths.items()}
