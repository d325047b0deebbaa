"""What ps(1) and top(1) show of a process that was forked and not executed."""

import os
import sys

PADDING = "-" * 2048  # an argument that only makes room


def set_title(command: str, name: str) -> None:
    """Write over our own arguments in memory, and set the name of the main thread.

    proc(5): what stands there is the command line. Where its last byte is not zero, the kernel takes it for
    a title, which ends at the first zero (fs/proc/base.c, get_mm_cmdline).
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, 48 and 49 in proc(5)
        _set_name(name)
    except (OSError, ValueError, IndexError):
        return
    room = end - start
    if not 0 < room < 1 << 20:  # a kernel that does not tell
        return
    title = os.fsencode(command)[: room - 2]
    ctypes.memmove(start, title + b"\0" * (room - len(title) - 1) + b"-", room)


def _set_name(name: str) -> None:
    with open("/proc/self/comm", "wb") as file:
        file.write(os.fsencode(name)[:15])
