"""flaky.py N: rank 1 fails in the first N attempts, when every worker has spoken."""

import os
import signal
import sys

from meet import announce_all

NAMES = "RANK DDPLAUNCH_ATTEMPT TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS MASTER_PORT"

print("worker " + " ".join(os.environ[name] for name in NAMES.split()))
announce_all()
if int(os.environ["DDPLAUNCH_ATTEMPT"]) < int(sys.argv[1]):
    if os.environ["RANK"] == "1":
        sys.exit(5)
    signal.pause()
