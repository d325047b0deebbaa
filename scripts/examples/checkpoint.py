"""Save on rank 0, load on every rank, go on training, and leave no file behind.

ddplaunch --nproc-per-node 4 scripts/examples/checkpoint.py
"""

import os
import tempfile

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from toy import ToyModel

from ddplaunch.worker import process_group

with process_group() as world:
    torch.manual_seed(world.rank)  # every rank begins elsewhere: only the checkpoint makes them equal
    model = ToyModel().to(world.device)
    path = os.path.join(tempfile.gettempdir(), f"toy-{os.environ.get('DDPLAUNCH_RUN_ID', 'alone')}.pt")

    world.save(model.state_dict(), path)  # by rank 0; here all have waited for it
    model.load_state_dict(world.load(path))
    total = sum(parameter.sum().item() for parameter in model.parameters())
    print(f"rank {world.rank}: loaded weights that add up to {total:.6f}")

    ddp = DistributedDataParallel(model, device_ids=world.device_ids)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
    loss = nn.functional.mse_loss(
        ddp(torch.randn(20, 10).to(world.device)), torch.randn(20, 5).to(world.device)
    )
    loss.backward()
    optimizer.step()

    world.barrier()  # all have read it
    if world.is_main:
        os.remove(path)
