"""busy_then_asleep.py SECONDS: rank 0 works that long and then sleeps; the others sleep at once."""

import os
import sys
import time


def sleep_at_once() -> None:
    time.sleep(600)


def sleep_at_last() -> None:
    time.sleep(600)


seconds = float(sys.argv[1])
if os.environ["RANK"] == "0":
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    print(f"worked for {seconds:.0f} s")
    sleep_at_last()
else:
    sleep_at_once()
