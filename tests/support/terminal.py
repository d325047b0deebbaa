"""A real terminal, with the launcher in its foreground."""

import os
import pty
import select
import signal
import time
from collections.abc import Mapping

from tests.support.processes import PATIENCE


class Terminal:
    """Runs a command as a shell on a terminal would: leading the session, in the foreground."""

    def __init__(self, command: list[str], env: Mapping[str, str]) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> None:
        """Until `text` has appeared on the screen."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < deadline, f"not on the screen: {text!r}\n{self.seen}"
            if not self._read(0.1):
                assert text in self.seen, f"it ended without {text!r}\n{self.seen}"

    def wait(self) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(0.1):
            self._check_patience(deadline)
        os.close(self._fd)
        return self._wait_for_exit(deadline)

    def hang_up(self) -> int:
        """As closing its window; the exit code."""
        os.close(self._fd)
        return self._wait_for_exit(time.monotonic() + PATIENCE)

    def _wait_for_exit(self, deadline: float) -> int:
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self._check_patience(deadline)
            time.sleep(0.01)

    def _check_patience(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise AssertionError(f"it did not leave within {PATIENCE:.0f} s\n{self.seen}")

    def _read(self, seconds: float) -> bool:
        """False when the last program on the terminal has left."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            chunk = os.read(self._fd, 65536)
        except OSError:  # EIO
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)
