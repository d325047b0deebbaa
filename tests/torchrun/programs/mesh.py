"""A device mesh of two dimensions, and a collective in each."""

import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
sums = []
for name in ("dp", "tp"):
    value = torch.tensor([dist.get_rank()])
    dist.all_reduce(value, group=mesh.get_group(name))
    sums.append(int(value))
print("mesh", dist.get_rank(), mesh.get_coordinate(), sums)
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads
