"""when_told.py FILE RANK CODE [stay]: that rank leaves with that code when the file is there.

The others leave with 0 at once, or stay until they are stopped.
"""

import os
import sys
import time

from meet import announce_all

path, rank, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
announce_all()
if int(os.environ["RANK"]) == rank:
    while not os.path.exists(path):
        time.sleep(0.02)
    print(f"leaving with {code}")
    sys.exit(code)
if "stay" in sys.argv:
    time.sleep(600)
print("leaving with 0")
