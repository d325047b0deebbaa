"""Say who I am and where."""

import os

names = ("RANK", "WORLD_SIZE", "NODE_RANK", "SLURM_NODEID", "DDPLAUNCH_ATTEMPT", "DDPLAUNCH_RUN_ID")
print("place", *(f"{name}={os.environ.get(name)}" for name in names), f"host={os.uname().nodename}")
