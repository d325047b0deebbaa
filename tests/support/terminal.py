"""A real terminal, with the launcher in its foreground."""

import os
import pty
import select
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
        while self._read(PATIENCE):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)

    def hang_up(self) -> None:
        os.close(self._fd)

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
