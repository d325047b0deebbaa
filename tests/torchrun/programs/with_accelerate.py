"""Hugging Face accelerate in the script, started by somebody else."""

import time

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.arange(32, dtype=torch.float32).reshape(8, 4), batch_size=2)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for batch in data:
    accelerator.backward(model(batch).pow(2).mean() * 1e-3)
    optimizer.step()
    optimizer.zero_grad()
total = accelerator.gather(torch.tensor([accelerator.process_index])).tolist()
print("accelerate", accelerator.process_index, accelerator.num_processes, accelerator.distributed_type, total)
accelerator.wait_for_everyone()
accelerator.end_training()
time.sleep(0.1)  # gloo's threads
