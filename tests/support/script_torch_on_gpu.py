"""The backend of torch on tensors of GPUs: a script for collalgo run -n 3."""

import torch
import torch.distributed as dist
from torch import nn

from tests.support.torch_calls import by_future, every_call, waited_for

dist.init_process_group("collalgo")
rank, group = dist.get_rank(), dist.group.WORLD
torch.cuda.set_device(rank % torch.cuda.device_count())
expected = every_call(group, lambda tensor: tensor, None)
for finish in (None, waited_for, by_future):
    found = every_call(group, torch.Tensor.cuda, finish)
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours.is_cuda, i
        assert torch.equal(ours.cpu(), theirs), (i, ours, theirs)

torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4).cuda())
model(torch.full((2, 8), rank + 1.0, device="cuda")).sum().backward()
gradient = model.module.weight.grad.cpu()
mean = (2 + 4 + 6) / 3
assert torch.equal(gradient, torch.full((4, 8), mean)), gradient
dist.destroy_process_group()
print("right", flush=True)
