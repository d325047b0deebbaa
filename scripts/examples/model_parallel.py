"""Each worker's network spans two devices, and DistributedDataParallel spans the workers.

ddplaunch --nproc-per-node 2 --gpus-per-proc 2 scripts/examples/model_parallel.py
ddplaunch --nproc-per-node 2 scripts/examples/model_parallel.py
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddplaunch.worker import process_group


class TwoDeviceModel(nn.Module):
    def __init__(self, first: torch.device, second: torch.device) -> None:
        super().__init__()
        self.first, self.second = first, second
        self.net1 = nn.Linear(10, 10).to(first)
        self.net2 = nn.Linear(10, 5).to(second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.net1(x.to(self.first)))
        return self.net2(hidden.to(self.second))


with process_group(seed=42) as world:
    if len(world.devices) >= 2:
        first, second = world.devices[:2]
    else:
        first = second = world.device
        if world.is_main:
            print(f"no second card per worker (--gpus-per-proc 2): both halves are on {world.device}")
    model = DistributedDataParallel(TwoDeviceModel(first, second))  # no device_ids: it spans several
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loss = nn.functional.mse_loss(model(torch.randn(20, 10)), torch.randn(20, 5).to(second))
    loss.backward()
    optimizer.step()
    total = loss.detach().to(world.device)
    dist.all_reduce(total)
    print(f"rank {world.rank}: {first} and {second}, loss {total.item() / world.size:.6f} over all ranks")
