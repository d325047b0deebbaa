"""Train a little; then the last rank exits with 7 in the middle of it."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
batch = torch.ones(1)
for step in range(1_000_000):
    dist.all_reduce(batch)
    if step == 20 and dist.get_rank() == dist.get_world_size() - 1:
        os._exit(7)  # torch 2.13's gloo may abort in the interpreter's teardown, and 134 would be the truth
