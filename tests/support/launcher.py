"""Running the real command, with its output in files that a test can look at while it runs."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import PATIENCE, wait_until

WORKERS = Path(__file__).parent / "workers"
DDPLAUNCH = [sys.executable, "-m", "ddplaunch"]


def worker(name: str) -> str:
    return str(WORKERS / f"{name}.py")


class Run:
    """One launcher, started."""

    def __init__(
        self, command: list[str], env: Mapping[str, str], directory: Path, **options: object
    ) -> None:
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            settings = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **options}
            self.process = subprocess.Popen(command, env=env, **settings)  # type: ignore[call-overload]

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self._err.read_text(errors="replace")

    @property
    def out_bytes(self) -> bytes:
        return self._out.read_bytes()

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    def wait(self, seconds: float = PATIENCE) -> int:
        return int(self.process.wait(timeout=seconds))

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.out + self.err or self._ended(), f"{text!r} was printed")
        assert text in self.out + self.err, self.err

    def wait_ready(self, count: int) -> list[int]:
        """The pids that workers announced with `ready pid=N`."""

        def pids() -> list[int]:
            return [int(pid) for pid in re.findall(r"ready pid=(\d+)", self.out)]

        wait_until(lambda: len(pids()) >= count or self._ended(), f"{count} workers are ready")
        assert len(pids()) >= count, self.err
        return pids()

    def send(self, signum: signal.Signals) -> None:
        os.kill(self.pid, signum)

    def end(self) -> None:
        """Whatever the test did: this launcher is over, and reaped."""
        self.process.kill()
        self.process.wait()

    def _ended(self) -> bool:
        return self.process.poll() is not None
