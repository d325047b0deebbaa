"""What must not have happened in a process that is about to be forked."""

import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress

from ddplaunch.preload.fork import fork

# [what, cause, hint], as an error has them.
Obstacle = tuple[str, str, str]

_CARDS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/render", "/dev/davinci")
REHEARSAL_SECONDS = 10.0
_PARALLEL = 1 << 18  # elements: torch divides such a sum among its threads


def explain_failure(name: str, error: BaseException) -> Obstacle:
    """Why a module could not be imported, and where in it."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(("<", os.path.dirname(__file__)))]
    places = [(frame.filename, frame.lineno) for frame in outside]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    where = f" ({places[-1][0]}, line {places[-1][1]})" if places else ""
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    words = f"{type(error).__name__}: {said}" if said else type(error).__name__
    hint = "it is imported as the script would import it, from the script's directory"
    return f"cannot import {name}", words + where, hint


def find_obstacle() -> Obstacle | None:
    """After the imports: why no worker can be forked from here."""
    lasting = [thread.name for thread in _threads() if not thread.daemon]
    if lasting:
        cause = f"it would be missing in the workers: a fork has the main thread only ({', '.join(lasting)})"
        return "a thread was started by the import", cause, "import that module in the script instead"
    cards = _find_cards()
    if cards:
        cause = f"a fork cannot use what its parent opened ({', '.join(cards)})"
        return "the import has initialised CUDA or its like", cause, "leave that to the script"
    if _count_threads() > 1 + len(_threads()) and not _can_compute_in_fork():
        cause = "torch has computed on several threads, and a computation in a fork of that never ends"
        return "the import has started OpenMP's threads", cause, "--omp-threads 1, or leave it to the script"
    return None


def name_daemons() -> list[str]:
    """Threads that a fork does not have, and that Python does not wait for anyway."""
    return [thread.name for thread in _threads()]


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread is not threading.main_thread()]


def _find_cards() -> list[str]:
    """Accelerators that are in use already, by torch's word or by the files that are open."""
    torch = sys.modules.get("torch")
    found = [
        f"torch.{name}.is_initialized()"
        for name in ("cuda", "xpu")
        if torch is not None and getattr(torch, name).is_initialized()
    ]
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if path.startswith(_CARDS) and path not in found:
                found.append(path)
    return found


def _count_threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _can_compute_in_fork() -> bool:
    """Libraries start threads that Python does not know. numpy's survive a fork; libgomp's do not: try it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return True
    pid = fork()
    if pid == 0:
        code = 1
        try:
            torch.ones(_PARALLEL).add_(1)
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + REHEARSAL_SECONDS
    while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return False
        time.sleep(0.001)
    return found[1] == 0
