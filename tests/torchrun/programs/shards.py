"""shards.py DIRECTORY: a sharded model on gloo, saved and loaded by torch.distributed.checkpoint."""

import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


mesh = init_device_mesh("cpu", (2,))
model = make()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
model(torch.randn(4, 8)).pow(2).mean().backward()
optimizer.step()
state = {"model": get_model_state_dict(model)}
dcp.save(state, checkpoint_id=sys.argv[1])
other = {"model": get_model_state_dict(make())}
dcp.load(other, checkpoint_id=sys.argv[1])
restored = make()
set_model_state_dict(restored, other["model"])
same = all(
    torch.equal(a.full_tensor(), b.full_tensor())
    for a, b in zip(model.parameters(), restored.parameters(), strict=True)
)
print("shards", dist.get_rank(), same)
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads
