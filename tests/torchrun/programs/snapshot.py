"""snapshot.py PATH: as the tutorial on fault tolerance has it; rank 1 fails once, after two epochs."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

path = sys.argv[1]
dist.init_process_group("gloo")
rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
first = 0
if os.path.exists(path):
    snapshot = torch.load(path)
    model.load_state_dict(snapshot["model"])
    first = snapshot["epoch"]
print(f"snapshot {rank} begins at {first} after {os.environ['TORCHELASTIC_RESTART_COUNT']} restarts")
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
sampler = DistributedSampler(dataset)
for epoch in range(first, 4):
    sampler.set_epoch(epoch)
    for inputs, targets in DataLoader(dataset, batch_size=4, sampler=sampler):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "epoch": epoch + 1}, path)
    dist.barrier()
    if rank == 1 and epoch == 1 and first == 0:
        raise RuntimeError("as if a card had failed")
print(f"snapshot {rank} ends at {epoch + 1}")
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads
