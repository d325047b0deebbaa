"""Lightning Fabric, which asks the environment who started it."""

import time

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments import TorchElasticEnvironment

assert TorchElasticEnvironment.detect()
fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
fabric.launch()
model, optimizer = fabric.setup(
    torch.nn.Linear(4, 1), torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
)
fabric.backward(model(torch.ones(2, 4)).mean())
total = fabric.all_reduce(torch.tensor(fabric.global_rank), reduce_op="sum")
print(
    "fabric",
    fabric.global_rank,
    fabric.world_size,
    int(total),
    type(fabric._connector.cluster_environment).__name__,
)
fabric.barrier()
torch.distributed.destroy_process_group()
time.sleep(0.1)  # gloo's threads
