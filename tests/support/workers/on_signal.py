"""on_signal.py SECONDS: on SIGTERM or SIGINT work that long, say so, and leave with 0; SIGUSR1 is noted."""

import os
import signal
import sys
import time
from types import FrameType


def stop(signum: int, frame: FrameType | None) -> None:
    time.sleep(float(sys.argv[1]))
    print(f"saved rank={os.environ['RANK']} signal={signum}")
    sys.exit(0)


def note(signum: int, frame: FrameType | None) -> None:
    print(f"noted rank={os.environ['RANK']} signal={signum}")


for stopping in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(stopping, stop)
for passing in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(passing, note)
print(f"ready pid={os.getpid()} rank={os.environ['RANK']}")
while True:
    signal.pause()
