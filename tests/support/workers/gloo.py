"""Meet the others and add up the ranks."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
print(f"sum {total.item()}", flush=True)
dist.barrier()
os._exit(0)  # torch 2.13's gloo crashes now and then in the interpreter's teardown: not what is tested here
