"""elastic.py CHECKPOINT STEPS: count steps together, and go on from the checkpoint after every restart."""

import os
import sys
import time

import torch
import torch.distributed as dist

from ddplaunch.worker import process_group

path, steps = sys.argv[1], int(sys.argv[2])
with process_group(timeout=60) as world:
    step = world.load(path)["step"] if os.path.exists(path) else 0
    world.barrier()
    print(f"begin rank={world.rank} size={world.size} node={world.node} attempt={world.attempt} step={step}")
    while step < steps:
        total = torch.ones(1)
        dist.all_reduce(total)
        assert total.item() == world.size
        step += 1
        world.save({"step": step}, path)
        time.sleep(0.05)
        while step == steps // 2 and world.size < 3:  # half of it is done, the other half takes three nodes
            time.sleep(0.05)
    print(f"end rank={world.rank} step={step}")
