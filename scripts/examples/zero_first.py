"""One worker of each node prepares the data, the others find it ready; then each takes its share.

ddplaunch --nproc-per-node 4 scripts/examples/zero_first.py --data build/data.pt
"""

import argparse
import os

import torch
from torch.utils.data import DataLoader, TensorDataset

from ddplaunch.worker import World, process_group


def load_or_make(path: str, world: World) -> torch.Tensor:
    if os.path.exists(path):
        print(f"rank {world.rank}: found the data")
        return torch.load(path, weights_only=True)
    print(f"rank {world.rank}: made the data")
    data = torch.arange(103)  # not a multiple of anything
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    torch.save(data, path)
    return data


parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
options = parser.parse_args()
with process_group() as world:
    with world.zero_first():
        data = load_or_make(options.data, world)
    sampler = world.sampler(data, seed=7, drop_last=True)
    for epoch in range(2):
        sampler.set_epoch(epoch)  # another shuffle, the same on all ranks
        loader = DataLoader(TensorDataset(data), batch_size=8, sampler=sampler)
        seen = [int(number) for (batch,) in loader for number in batch]
        print(f"rank {world.rank}: epoch {epoch}: {' '.join(map(str, seen))}")
