"""Launch a function, not a script: the same lines work in a notebook's cell.

python scripts/examples/function.py
"""

import torch

import ddplaunch


def estimate_pi(samples: int) -> tuple[int, float]:
    import torch.distributed as dist

    from ddplaunch.worker import process_group

    with process_group() as world:
        torch.manual_seed(world.rank)
        inside = (torch.rand(samples, 2).square().sum(dim=1) < 1).sum()
        dist.all_reduce(inside)
        return world.rank, 4 * inside.item() / (samples * world.size)


results = ddplaunch.launch(estimate_pi, args=(200_000,), nproc_per_node=4)
for rank, pi in results:
    print(f"rank {rank} says {pi:.4f}")
