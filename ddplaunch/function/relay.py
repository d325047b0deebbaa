"""Where the launcher's output goes: to our descriptors, or to Python's streams where those lead elsewhere."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def relay_output() -> Iterator[tuple[int | None, int | None]]:
    """stdout and stderr for a child; None is inherited. A notebook's streams are not descriptors 1 and 2."""
    threads: list[threading.Thread] = []
    ends: list[int | None] = []
    for stream, original in ((sys.stdout, sys.__stdout__), (sys.stderr, sys.__stderr__)):
        if stream is original or stream is None:
            ends.append(None)
            continue
        read, write = os.pipe()
        ends.append(write)
        threads.append(threading.Thread(target=_pass_on, args=(read, stream), daemon=True))
        threads[-1].start()
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            if end is not None:
                os.close(end)
        for thread in threads:
            thread.join()


def _pass_on(read: int, stream: TextIO) -> None:
    with open(read, encoding="utf-8", errors="backslashreplace", newline="") as lines:
        for line in lines:
            stream.write(line)
            stream.flush()
