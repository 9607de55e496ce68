"""Train a small convolutional network on digits, with any backend of torch.

    collalgo run -n 4 python examples/torch_digits.py            # on collalgo
    collalgo run -n 4 python examples/torch_digits.py gloo       # the same losses

The digits are those of ``digits.py``.
"""

import sys

import torch
import torch.distributed as dist
from digits import load_digits
from torch import nn

EPOCHS, BATCH = 5, 64

dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "collalgo")
rank, size = dist.get_rank(), dist.get_world_size()

pixels, values = load_digits()
images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8)
labels = torch.tensor(values)

torch.manual_seed(0)  # the same network and the same order on every rank
network = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 16, 10),
)
model = nn.parallel.DistributedDataParallel(network)
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

for epoch in range(EPOCHS):
    total = torch.zeros(1)
    for batch in torch.randperm(len(images)).split(BATCH):
        mine = batch[rank::size]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(mine)
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch + 1}: loss {total.item() / len(images):.5f}", flush=True)

dist.destroy_process_group()
