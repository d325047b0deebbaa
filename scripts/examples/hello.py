"""Every worker says who it is. It needs nothing: a worker's place is in its environment.

ddplaunch --nproc-per-node 4 scripts/examples/hello.py
"""

import os

print(f"world size: {os.environ['WORLD_SIZE']}. I'm rank {os.environ['RANK']}.")
