"""fail.py RANK HOW: that rank raises, exits with a code, or dies by a signal; the others print on."""

import os
import sys
import time

from meet import announce_all

rank, (failing, how) = int(os.environ["RANK"]), sys.argv[1:]
announce_all()
if rank == int(failing):
    if how == "raise":
        raise ValueError(f"boom in rank {rank}")
    if how.startswith("exit"):
        sys.exit(int(how[4:]))
    os.kill(os.getpid(), int(how[6:]))
while True:
    print(f"rank {rank} goes on")
    time.sleep(0.05)
