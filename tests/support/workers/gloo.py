"""Meet the others and add up the ranks."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank()])
dist.all_reduce(total)
print(f"sum {total.item()}")
dist.barrier()  # leave together
dist.destroy_process_group()
