"""What scripts ask to find out who started them."""

import os
import time

import torch.distributed as dist

print("elastic", dist.is_torchelastic_launched(), dist.is_available())
dist.init_process_group("gloo")
print("rank", dist.get_rank(), dist.get_world_size(), dist.get_node_local_rank())
assert int(os.environ["LOCAL_WORLD_SIZE"]) == int(os.environ["WORLD_SIZE"])
assert int(os.environ["TORCHELASTIC_RESTART_COUNT"]) <= int(os.environ["TORCHELASTIC_MAX_RESTARTS"])
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads
