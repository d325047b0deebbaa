"""Every worker meets the others, and says so: no address, port or rank is written down anywhere.

ddplaunch --nproc-per-node 4 scripts/examples/gloo_hello.py
"""

import torch
import torch.distributed as dist

from ddplaunch.worker import process_group

with process_group("gloo") as world:
    total = torch.tensor([world.rank])
    dist.all_reduce(total)
    print(f"world size: {world.size}. I'm rank {world.rank}. Our ranks add up to {total.item()}.")
