"""Announce, then wait for a signal."""

import os
import signal

print(f"ready pid={os.getpid()} rank={os.environ['RANK']}")
signal.pause()
