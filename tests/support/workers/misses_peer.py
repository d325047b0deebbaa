"""misses_peer.py HOW: rank 1 fails, says so, and is slow to end; rank 0 misses it, and is over first."""

import json
import os
import sys
import time

from meet import announce_all

announce_all()
mark = os.path.join(os.environ["DDP_TEST_DIRECTORY"], "failed")
if os.environ["RANK"] == "1":
    if sys.argv[1] == "print":
        sys.stderr.write("Traceback (most recent call last):\n  File 'x'\nValueError: the real reason\n")
    else:
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": "ValueError: the real reason"}, file)
    open(mark, "w").close()
    time.sleep(60)
while not os.path.exists(mark):
    time.sleep(0.01)
time.sleep(0.3)  # with torch, the end of a process takes as long
raise RuntimeError("[pair.cc:538] Connection closed by peer [127.0.0.1]:3371")
