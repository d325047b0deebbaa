"""How fast workers' lines come through, and how late."""

import os
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.bench.peers import CAT, TORCHRUN, Peer

WORKERS, MEGABYTES = 4, 64


def add_logs(peer: Peer, command: list[str], directory: str) -> list[str]:
    """torchrun has lines of many workers in one place, and whole, only with files beside them."""
    options = ["--tee", "3"] if peer.name == TORCHRUN else []
    at = command.index("--nproc-per-node")
    return [*command[:at], *options, "--log-dir", directory, *command[at:]]


def megabytes_per_second(peer: Peer, script: str, with_logs: bool) -> float:
    """From the first byte to the last, through a pipe."""
    with TemporaryDirectory() as directory:
        if peer.name == CAT:
            same = Path(directory, "same")
            with same.open("wb") as out:
                for _ in range(WORKERS):
                    subprocess.run(["python3", script, str(MEGABYTES)], stdout=out, check=True)
            command = ["cat", str(same)]
        else:
            command = peer.compose(WORKERS, [script, str(MEGABYTES)])
            command = add_logs(peer, command, directory) if with_logs else command
        process = subprocess.Popen(
            command, env=peer.environment(WORKERS), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        begin = 0.0
        while os.read(process.stdout.fileno(), 1 << 20):
            begin = begin or time.perf_counter()
        seconds = time.perf_counter() - begin
        if process.wait():
            raise RuntimeError(f"{peer.name} failed")
        return WORKERS * MEGABYTES / seconds


def late_milliseconds(peer: Peer, script: str) -> float:
    """Between a worker's print() and its line in our hands: 99 of 100 are faster."""
    with TemporaryDirectory() as directory:
        command = peer.compose(WORKERS, [script])
        if peer.name == TORCHRUN:
            command = add_logs(peer, command, directory)
        process = subprocess.Popen(
            command, env=peer.environment(WORKERS), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert process.stdout is not None
        delays = []
        for line in process.stdout:
            words = [word for word in line.decode().replace("]:", " ").split() if "." in word]
            if words and line.rstrip().endswith(b"x" * 60):
                delays.append((time.monotonic() - float(words[0])) * 1000)
        process.wait()
        return sorted(delays)[int(len(delays) * 0.99)]
