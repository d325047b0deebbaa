"""Announce and leave."""

import os

print(f"ready pid={os.getpid()} rank={os.environ['RANK']}")
