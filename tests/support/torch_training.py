"""Duties of ranks under torch: models that are trained."""

import tempfile

import torch
import torch.distributed as dist
from torch import nn

from tests.support.torch_values import equal


def sparse_gradients():
    """An embedding with sparse gradients trains as one with dense ones."""
    size, rank = dist.get_world_size(), dist.get_rank()

    def trained(wrap, sparse, rows):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(20, 4, sparse=sparse), nn.Linear(4, 2))
        wrapped = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            words = (torch.arange(6 * size) * (step + 3)) % 11
            wrapped(words[rows]).square().mean().backward()
            optimizer.step()
        return model

    wrap = nn.parallel.DistributedDataParallel
    found = trained(wrap, True, slice(6 * rank, 6 * rank + 6))
    expected = trained(lambda model: model, False, slice(None))
    for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batches(steps=4):
    generator = torch.Generator().manual_seed(1)
    size = dist.get_world_size()
    for _ in range(steps):
        yield torch.randn(6 * size, 8, generator=generator)


def reference():
    """What training gives that is not distributed."""
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for batch in batches():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return model


def same_parameters(model):
    for found, expected in zip(
        model.parameters(), reference().parameters(), strict=True
    ):
        whole = found.full_tensor() if hasattr(found, "full_tensor") else found
        torch.testing.assert_close(whole, expected)


def train(model, optimizer):
    rank = dist.get_rank()
    for batch in batches():
        optimizer.zero_grad()
        model(batch[6 * rank : 6 * rank + 6]).square().mean().backward()
        optimizer.step()
    return model


def data_parallel():
    model = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.001)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01))
    same_parameters(model.module)


def zero_redundancy():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = nn.parallel.DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    train(model, optimizer)
    same_parameters(model.module)


def fully_sharded():
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01))
    same_parameters(model)
    checkpoint(get_model_state_dict(model), model)


def fully_sharded_flat():
    """The first FSDP, which gives memory back by resizing tensors that were sent."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    host = torch.device("cpu")
    model = FullyShardedDataParallel(network(), device_id=host, use_orig_params=True)
    train(model, torch.optim.Adam(model.parameters(), lr=0.01))
    with FullyShardedDataParallel.summon_full_params(model):
        same_parameters(model)


def compressed_gradients():
    """A hook that calls again and waits where the one before has ended.

    With several buckets the ranks may make its calls in different orders.
    """
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    model = nn.parallel.DistributedDataParallel(network())
    state = powerSGD_hook.PowerSGDState(None, 4, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for parameter in model.parameters():
        of_first = parameter.detach().clone()
        dist.broadcast(of_first, 0)
        equal(parameter.detach(), of_first)


def checkpoint(state, model):
    """What is saved by all ranks together comes back."""
    import torch.distributed.checkpoint as saved

    folder = [tempfile.mkdtemp()] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(folder)
    saved.save(state, checkpoint_id=folder[0])
    before = [parameter.full_tensor().clone() for parameter in model.parameters()]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    saved.load(state, checkpoint_id=folder[0])
    for parameter, expected in zip(model.parameters(), before, strict=True):
        equal(parameter.full_tensor(), expected)


def tensors_in_parts():
    """DTensor over a mesh of two dimensions, where the number of ranks has them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    size = dist.get_world_size()
    shape = (2, size // 2) if size % 2 == 0 else (size,)
    mesh = init_device_mesh("cpu", shape)
    torch.manual_seed(0)
    a, b = torch.randn(8, 12), torch.randn(12, 8)
    placements = [Shard(0), Shard(1)][: len(shape)]
    left = distribute_tensor(a, mesh, placements)
    right = distribute_tensor(b, mesh, [Replicate()] * len(shape))
    torch.testing.assert_close((left @ right).full_tensor(), a @ b)
    moved = left.redistribute(mesh, [Shard(1), Shard(0)][: len(shape)])
    torch.testing.assert_close(moved.full_tensor(), a)
