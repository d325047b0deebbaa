"""Train a small network on scikit-learn's handwritten digits, on one node or many.

ddplaunch --nproc-per-node 2 scripts/examples/digits.py --epochs 30

After a restart (--max-restarts, or a job that was queued again) it goes on from its checkpoint; --resume
does so in any case. Asked to stop by SIGTERM or SIGUSR1, all ranks write it together, at the same step.
"""

import argparse
import os
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from ddplaunch.worker import World, process_group

BATCH = 32  # images of each worker in a step


def load() -> tuple[TensorDataset, torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images.astype("float32") / 16, labels, test_size=0.2, random_state=0, stratify=labels
    )
    train = TensorDataset(torch.from_numpy(train_x), torch.from_numpy(train_y))
    return train, torch.from_numpy(test_x), torch.from_numpy(test_y)


def train(world: World, options: argparse.Namespace) -> bool:
    """Whether it came to its end; otherwise the checkpoint says how far it came."""
    data, test_x, test_y = load()
    sampler = world.sampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(world.device)
    model = DistributedDataParallel(network, device_ids=world.device_ids)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    preempted = world.on_preemption()

    def save(epoch: int, steps: int) -> None:
        """Images are counted, not steps: a run that goes on with more workers takes fewer steps."""
        state = {"model": network.state_dict(), "optimizer": optimizer.state_dict()}
        world.save({**state, "epoch": epoch, "seen": steps * BATCH * world.size}, options.checkpoint)

    first_epoch, first_step = 0, 0
    if (options.resume or world.attempt > 0) and os.path.exists(options.checkpoint):
        saved = world.load(options.checkpoint)
        network.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first_epoch = saved["epoch"]
        first_step = min(saved["seen"] // (BATCH * world.size), len(loader) - 1)
        if world.is_main:
            print(f"going on from epoch {first_epoch}, step {first_step}")

    begin = time.perf_counter()
    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        for step, (images, labels) in enumerate(loader):
            if epoch == first_epoch and step < first_step:
                continue
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images.to(world.device)), labels.to(world.device))
            loss.backward()
            optimizer.step()
            if preempted():
                is_last = step + 1 == len(loader)
                save(epoch + is_last, 0 if is_last else step + 1)
                return False
        save(epoch + 1, 0)
        if world.is_main:
            print(f"epoch {epoch + 1:2} of {options.epochs}: loss {loss.item():.4f}")
    seconds = time.perf_counter() - begin

    with torch.no_grad():
        right = network(test_x.to(world.device)).argmax(dim=1).cpu() == test_y
    if world.is_main:
        print(
            f"test accuracy {right.float().mean().item():.1%} after {seconds:.1f} s on {world.size} workers"
        )
        print(f"checkpoint: {options.checkpoint}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--checkpoint", default="digits.pt")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint, if there is one")
    options = parser.parse_args()
    with process_group(seed=0) as world:
        is_over = train(world, options)
        if not is_over and world.is_main:
            print(f"asked to stop: all is in {options.checkpoint}")


if __name__ == "__main__":
    main()
