"""A script from the days of torch.distributed.launch: it wants --local_rank as an argument.

ddplaunch --pass-local-rank underscore --nproc-per-node 2 scripts/examples/legacy.py --epochs 2
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int)
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()

cards = torch.cuda.device_count()
device_id = args.local_rank % max(1, cards)
if cards:
    torch.cuda.set_device(device_id)
dist.init_process_group(backend="nccl" if cards else "gloo")
torch.manual_seed(0)
device = torch.device("cuda", device_id) if cards else torch.device("cpu")
net = nn.Linear(4, 1).to(device)
model = nn.parallel.DistributedDataParallel(net, device_ids=[device_id] if cards else None)
dataset = TensorDataset(torch.randn(64, 4))
sampler: torch.utils.data.distributed.DistributedSampler[object]
sampler = torch.utils.data.distributed.DistributedSampler(dataset)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(args.epochs):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(dataset, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        model(batch.to(device)).pow(2).mean().backward()
        optimizer.step()
print(f"local rank {args.local_rank}: weights {net.weight.sum().item():.6f}")
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads have to let go of the last collective before Python ends
