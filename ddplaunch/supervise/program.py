"""Starting a program.

subprocess.Popen does all that is done here. But it takes 6 ms to import and, for each worker, twice as long
as the system needs. It calls posix_spawn itself where it can; for a new session it does not.
"""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress

from ddplaunch.record import Record

# Python ignores them for itself; a program expects to begin with what is usual.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


class Ends(Record):
    """The descriptors a program gets; where stdin, stdout or stderr is None, it has our own."""

    stdin: int | None
    stdout: int | None
    stderr: int | None
    kept: int | None  # one more, under the number it has here


def hide_descriptors() -> bool:
    """From now on programs inherit what they are given. False: they would inherit what we have inherited."""
    if sys.platform != "linux":
        return False
    try:
        present = os.listdir("/proc/self/fd")
    except OSError:
        return False
    for fd in map(int, present):
        if fd > 2:
            with suppress(OSError):  # that of the listing itself is closed by now
                os.set_inheritable(fd, False)
    return True


def start_program(
    argv: tuple[str, ...], env: Mapping[str, str], ends: Ends, leads_session: bool, is_hidden: bool
) -> int:
    """Its pid; an OSError or a ValueError says why there is none. `is_hidden`: see hide_descriptors."""
    if is_hidden and "/" in argv[0]:  # else it is looked for in the PATH of `env`
        with suppress(NotImplementedError):  # a Python that was built for a C library before 2018
            return _spawn(argv, env, ends, leads_session)
    return _open(argv, env, ends, leads_session)


def _spawn(argv: tuple[str, ...], env: Mapping[str, str], ends: Ends, leads_session: bool) -> int:
    given = ((ends.stdin, 0), (ends.stdout, 1), (ends.stderr, 2))
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in given if fd is not None]
    if ends.kept is not None:
        os.set_inheritable(ends.kept, True)
    try:
        return os.posix_spawn(
            argv[0], argv, env, file_actions=actions, setsid=leads_session, setsigdef=_IGNORED_BY_PYTHON
        )
    finally:
        if ends.kept is not None:
            os.set_inheritable(ends.kept, False)


def _open(argv: tuple[str, ...], env: Mapping[str, str], ends: Ends, leads_session: bool) -> int:
    import subprocess

    process = subprocess.Popen(
        argv,
        env=env,
        stdin=ends.stdin,
        stdout=ends.stdout,
        stderr=ends.stderr,
        start_new_session=leads_session,
        pass_fds=() if ends.kept is None else (ends.kept,),
    )
    process.returncode = 0  # it is waited for elsewhere; or Popen would do so, and complain
    return process.pid
