"""A toy network, trained with DistributedDataParallel on shares of one batch.

ddplaunch --nproc-per-node 2 scripts/examples/toy.py
python scripts/examples/toy.py
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddplaunch.worker import World, process_group


class ToyModel(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))


def train(world: World, steps: int) -> tuple[DistributedDataParallel, torch.Tensor]:
    model = DistributedDataParallel(ToyModel().to(world.device), device_ids=world.device_ids)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    inputs, labels = torch.randn(120, 10), torch.randn(120, 5)  # the same on all ranks, by the seed
    share = slice(world.rank, None, world.size)
    loss = torch.zeros(())
    for _ in range(steps):
        optimizer.zero_grad()
        outputs = model(inputs[share].to(world.device))
        loss = nn.functional.mse_loss(outputs, labels[share].to(world.device))
        loss.backward()
        optimizer.step()
    return model, loss.detach()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--save", help="keep the parameters in this file")
    options = parser.parse_args()
    with process_group(seed=42) as world:
        model, loss = train(world, options.steps)
        dist.all_reduce(loss)
        print(f"rank {world.rank}: loss {loss.item() / world.size:.6f} over all ranks")
        if options.save:
            world.save(model.module.state_dict(), options.save)


if __name__ == "__main__":
    main()
