"""The launchers that are compared, each as the command line that its users type."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(sys.executable).parent
HERE = Path(__file__).parent

DDPLAUNCH, PRELOAD, TORCHRUN = "ddplaunch", "ddplaunch --preload torch", "torchrun"
LAUNCH, ACCELERATE, MPIRUN = "torch.distributed.launch", "accelerate launch", "mpirun"
BASH, SPAWN, CAT = "bash loop", "C posix_spawn loop", "cat"


@dataclass(frozen=True)
class Peer:
    name: str
    compose: Callable[[int, Sequence[str]], list[str]]  # workers, script and arguments
    missing: str = ""  # why it is not here

    def environment(self, workers: int) -> dict[str, str]:
        """Those that set no ranks and no port get what a user would have to set by hand."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        threads = max(1, (os.cpu_count() or 1) // workers)
        common = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        if self.name in (BASH, SPAWN, MPIRUN):
            common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(workers)}
        return common


def find_peers(build: Path) -> dict[str, Peer]:
    """All of them, also those that are not installed."""
    return {
        peer.name: peer
        for peer in (
            Peer(DDPLAUNCH, _torchrun_like(PROGRAMS / "ddplaunch")),
            Peer(PRELOAD, _torchrun_like(PROGRAMS / "ddplaunch", "--preload", "torch")),
            _installed(TORCHRUN, PROGRAMS / "torchrun"),
            Peer(LAUNCH, _torchrun_like(sys.executable, "-m", "torch.distributed.launch", "--use-env")),
            _installed(ACCELERATE, PROGRAMS / "accelerate", _accelerate),
            _installed(MPIRUN, shutil.which("mpirun.openmpi") or "mpirun.openmpi", _mpirun),
            Peer(BASH, _bash),
            _compiled(build),
        )
    }


def _torchrun_like(*words: object) -> Callable[[int, Sequence[str]], list[str]]:
    return lambda workers, script: [*map(str, words), "--nproc-per-node", str(workers), *script]


def _installed(
    name: str, program: Path | str, compose: Callable[[int, Sequence[str]], list[str]] | None = None
) -> Peer:
    missing = "" if Path(program).exists() else "not installed"
    return Peer(name, compose or _torchrun_like(program), missing)


def _accelerate(workers: int, script: Sequence[str]) -> list[str]:
    options = (
        f"--multi_gpu --num_machines 1 --mixed_precision no --dynamo_backend no --num_processes {workers}"
    )
    return [str(PROGRAMS / "accelerate"), "launch", *options.split(), *script]


def _mpirun(workers: int, script: Sequence[str]) -> list[str]:
    """On this machine alone, whatever its network looks like."""
    options = (
        "--allow-run-as-root --oversubscribe --bind-to none --mca oob_tcp_if_include lo --mca btl self,vader"
    )
    return ["mpirun.openmpi", *options.split(), "-np", str(workers), sys.executable, "-u", *script]


def _bash(workers: int, script: Sequence[str]) -> list[str]:
    command = shlex.join([sys.executable, "-u", *script])
    return ["bash", "-c", f"for i in $(seq 0 {workers - 1}); do RANK=$i {command} & done; wait"]


def _compiled(build: Path) -> Peer:
    program = build / "spawn_loop"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return Peer(SPAWN, _bash, "no C compiler")
    subprocess.run([compiler, "-O2", "-o", program, HERE / "spawn_loop.c"], check=True)
    return Peer(
        SPAWN, lambda workers, script: [str(program), str(workers), sys.executable, "-u", *map(str, script)]
    )
