"""Taking one reading of one launcher: start it, wait for its workers, look, end it."""

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.bench.peers import Peer
from scripts.bench.workers import ENDLESS

UP = b"up\n"
PATIENCE_SECONDS = 60.0  # a launcher that takes longer hangs
RESTART_SECONDS = 20.0  # for a restart: torchrun's hang now and then


class Run:
    """A launcher whose workers are all up and, if their script does so, hold on until they are let go."""

    def __init__(self, peer: Peer, workers: int, script: Sequence[str], lock: Path) -> None:
        self._lock = lock.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.began_at = time.perf_counter()
        self.process = subprocess.Popen(
            peer.compose(workers, [*script, str(lock)]),
            env=peer.environment(workers),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._watchdog = threading.Timer(PATIENCE_SECONDS, end_family, [self.process.pid])
        self._watchdog.start()
        assert self.process.stdout is not None
        for _ in range(workers):
            line = self.process.stdout.readline()
            if not line.endswith(UP):
                self._watchdog.cancel()
                end_family(self.process.pid)
                raise RuntimeError(f"{peer.name} ended before its {workers} workers were up: {line!r}")
        self.up_seconds = time.perf_counter() - self.began_at

    def let_go(self) -> float:
        """When that was."""
        self._lock.close()
        return time.perf_counter()

    def wait(self) -> float:
        """When it had left."""
        assert self.process.stdout is not None
        self.process.stdout.read()
        self.process.wait()
        self._watchdog.cancel()
        return time.perf_counter()


@contextmanager
def running(peer: Peer, workers: int, script: Sequence[str]) -> Iterator[Run]:
    with TemporaryDirectory() as directory:
        run = Run(peer, workers, script, Path(directory, "lock"))
        try:
            yield run
        finally:
            run.let_go()
            if run.process.poll() is None and Path(script[0]).stem in ENDLESS:
                os.killpg(run.process.pid, signal.SIGTERM)
            run.wait()


def seconds_to_up(peer: Peer, workers: int, script: str) -> float:
    """From exec to the last worker's line."""
    with running(peer, workers, [script]) as run:
        return run.up_seconds


def seconds_of_failure(peer: Peer, workers: int, script: str) -> float:
    """From a worker's exit to the launcher's."""
    with running(peer, workers, [script]) as run:
        went_at = run.let_go()
        return run.wait() - went_at


def seconds_of_interrupt(peer: Peer, workers: int, script: str) -> float:
    """From Ctrl-C, which a terminal sends to the whole process group, to the launcher's exit."""
    with running(peer, workers, [script]) as run:
        pressed_at = time.perf_counter()
        os.killpg(run.process.pid, signal.SIGINT)
        return run.wait() - pressed_at


def launcher_cpu_seconds(peer: Peer, workers: int, script: str) -> float:
    """What the launcher itself has computed until all workers were up."""
    with running(peer, workers, [script]) as run:
        return _cpu_seconds(run.process.pid)


def launcher_rss_megabytes(peer: Peer, workers: int, script: str) -> float:
    with running(peer, workers, [script]) as run:
        return _status(run.process.pid, "VmHWM") / 1024


def idle_wakeups(peer: Peer, workers: int, script: str, seconds: float) -> tuple[float, float]:
    """Per second: how often the launcher wakes up, and how much of a core it takes, in per cent."""
    with running(peer, workers, [script]) as run:
        time.sleep(1.0)  # whatever it does after the start
        before = _wakeups(run.process.pid), _cpu_seconds(run.process.pid)
        time.sleep(seconds)
        after = _wakeups(run.process.pid), _cpu_seconds(run.process.pid)
        return (after[0] - before[0]) / seconds, (after[1] - before[1]) / seconds * 100


def job_pss_megabytes(peer: Peer, workers: int, script: str) -> float:
    """Launcher, workers, helpers: every page once, shared ones divided among those that share them."""
    with running(peer, workers, [script]) as run:
        return sum(_pss(pid) for pid in _family(run.process.pid)) / 1024


def seconds_to_restart(peer: Peer, workers: int, script: str) -> float:
    """From a worker's crash to the next meeting of all."""
    with TemporaryDirectory() as directory:
        crash = Path(directory, "crash")
        command = peer.compose(workers, [script, str(crash)])
        at = next(index for index, word in enumerate(command) if word == "--nproc-per-node")
        command[at:at] = ["--max-restarts", "1"]
        environment = {**peer.environment(workers), "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=RESTART_SECONDS)
        except subprocess.TimeoutExpired:
            end_family(process.pid)
            process.communicate()
            raise RuntimeError(f"{peer.name} hung in its restart for {RESTART_SECONDS:.0f} s") from None
        again = [line.split()[-1] for line in output.splitlines() if "again" in line]
        if not again:
            raise RuntimeError(f"{peer.name} did not restart")
        return float(again[0]) - float(crash.read_text())


def end_family(pid: int) -> None:
    """A launcher that was given up, and whatever it would leave behind; it leads a session of its own."""
    for member in _family(pid):
        with suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _cpu_seconds(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _wakeups(pid: int) -> int:
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for line in (thread / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _family(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(path.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found
