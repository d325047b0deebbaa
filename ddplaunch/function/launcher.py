"""launcher.py FD ARGUMENTS...: ddplaunch, which ends when its caller does. Run by its path, as worker.py."""

import fcntl
import os
import select
import signal
import sys


def tie_to_caller(fd: int) -> None:
    """The caller holds the other end of a pipe: when it is gone, the kernel sends us SIGTERM."""
    if not hasattr(fcntl, "F_SETSIG"):  # Linux has it
        return
    fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    os.set_inheritable(fd, False)


def is_caller_gone(fd: int) -> bool:
    ask = select.poll()
    ask.register(fd, 0)
    return bool(ask.poll(0))


def main(fd: int, arguments: list[str]) -> None:
    tie_to_caller(fd)
    if is_caller_gone(fd):  # before anybody listened: the kernel tells of what happens, not of what has
        _clear_up()
        return
    from ddplaunch.cli import main as cli

    try:
        cli(arguments)
    finally:
        if is_caller_gone(fd):  # nobody else would
            _clear_up()


def _clear_up() -> None:
    import shutil

    shutil.rmtree(os.environ["DDPLAUNCH_CALL"], ignore_errors=True)


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    main(int(sys.argv[1]), sys.argv[2:])
