"""Ignore what can be ignored; rank 0 exits 9 when told to by `fail`."""

import os
import signal
import sys

from meet import announce_all

for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_IGN)
announce_all()
if sys.argv[1:] == ["fail"] and os.environ["RANK"] == "0":
    sys.exit(9)
while True:
    signal.pause()
