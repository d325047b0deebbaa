"""A pipeline of two stages, a rank each, on gloo."""

import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
stage = PipelineStage(torch.nn.Linear(16, 16), rank, size, torch.device("cpu"))
schedule = Schedule1F1B(stage, 4, loss_fn=torch.nn.functional.mse_loss)
losses: list[torch.Tensor] = []
if rank == 0:
    schedule.step(torch.randn(8, 16))
else:
    schedule.step(target=torch.randn(8, 16), losses=losses)
print("pipeline", rank, len(losses))
dist.barrier()
dist.destroy_process_group()
time.sleep(0.1)  # gloo's threads
