"""Remote calls: torch.distributed.rpc meets by the environment, too."""

import os

import torch
from torch.distributed import rpc

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
answer = rpc.rpc_sync(f"worker{1 - rank}", torch.add, args=(torch.ones(1), rank))
print("remote", rank, int(answer))
rpc.shutdown()
