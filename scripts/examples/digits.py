"""Train a small network on scikit-learn's handwritten digits with DistributedDataParallel.

ddplaunch --nproc-per-node 2 scripts/examples/digits.py --epochs 30
"""

import argparse
import time

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def load() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype("float32") / 16, labels, test_size=0.2, random_state=0, stratify=labels
    )
    train = TensorDataset(torch.from_numpy(train_x), torch.from_numpy(train_y))
    return train, torch.from_numpy(test_x), torch.from_numpy(test_y)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--checkpoint", default="digits.pt")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    train, test_x, test_y = load()
    sampler: DistributedSampler[object] = DistributedSampler(train, seed=0)
    loader = DataLoader(train, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    begin = time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1:2} of {options.epochs}: loss {loss.item():.4f}")
    seconds = time.perf_counter() - begin

    with torch.no_grad():
        accuracy = (model(test_x).argmax(dim=1) == test_y).float().mean().item()
    if rank == 0:
        torch.save(model.module.state_dict(), options.checkpoint)
        workers = dist.get_world_size()
        print(f"test accuracy {accuracy:.1%} after {seconds:.1f} s on {workers} workers")
        print(f"checkpoint: {options.checkpoint}")
    dist.barrier()  # leave together: a rank whose peer is gone may crash while it tears gloo down
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
