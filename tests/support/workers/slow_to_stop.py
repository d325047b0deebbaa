"""slow_to_stop.py LOG: in the first attempt rank 1 fails, and rank 0 takes a second to stop.

All write down when they begin and stop.
"""

import os
import signal
import sys
import time

from meet import announce_all

rank, attempt = os.environ["RANK"], os.environ["DDPLAUNCH_ATTEMPT"]


def note(text: str) -> None:
    with open(sys.argv[1], "a") as log:
        log.write(text + "\n")


def stop(signum: int, frame: object) -> None:
    time.sleep(1)
    note(f"stopped-{attempt}")
    sys.exit(1)


signal.signal(signal.SIGTERM, stop)
note(f"begun-{attempt}-{rank}")
announce_all()
if attempt == "0":
    if rank == "1":
        os._exit(5)
    time.sleep(600)
