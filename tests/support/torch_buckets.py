"""Duties of ranks under torch: where the buckets of gradients lie."""

import copy
import gc
import os
import resource
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn

from tests.support.torch_values import DTYPES


def wide(dtype=torch.float32, **how):
    """Three layers, with a bucket of 80 to 320 KB for each."""
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Linear(200, 200) for _ in range(3))).to(dtype)
    return nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.05, **how)


def same_gradients(model):
    """Take steps whose gradients are those that one rank alone has for all batches."""
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = copy.deepcopy(model.module)
    dtype = next(model.parameters()).dtype
    batches = torch.randn(6, size, 4, 200, generator=torch.Generator().manual_seed(1))
    for batch in batches.to(dtype):
        model.zero_grad()
        model(batch[rank]).square().mean().backward()
        alone.zero_grad()
        alone(batch.view(-1, 200)).square().mean().backward()
        for found, expected in zip(model.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(found.grad, expected.grad, rtol=0.05, atol=1e-3)


def maps_of_heaps():
    """How often this process has mapped memory that its ranks share."""
    return Path("/proc/self/maps").read_text().count("memfd:collalgo")


def files_of_buckets():
    """How many files in shared memory torch has open."""
    count = 0
    for link in [*Path("/proc/self/fd").iterdir()]:
        with suppress(OSError):  # of what is closed meanwhile
            count += str(link.readlink()).startswith("/dev/shm/torch")
    return count


def until(happened):
    """Wait for something that happens soon."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def buckets_are_shared():
    """Those of DDP are moved, once, to where all ranks have mapped them."""
    before = maps_of_heaps()
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        model = wide(dtype)
        same_gradients(model)
        moved = files_of_buckets()
        assert moved > 1, moved
        assert maps_of_heaps() > before
        same_gradients(model)
        assert files_of_buckets() == moved
        del model
        gc.collect()
        until(lambda: maps_of_heaps() == before)  # the thread of the group lets go, too
        assert not files_of_buckets()


def buckets_stay():
    """Those that can be seen stay where they are, and those that cannot be moved."""

    def hook(group, bucket):
        future = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
        return future.get_future().then(lambda done: done.value()[0] / group.size())

    before = maps_of_heaps()
    same_gradients(wide(gradient_as_bucket_view=True))
    assert maps_of_heaps() == before
    model = wide()
    model.register_comm_hook(dist.group.WORLD, hook)
    same_gradients(model)
    assert maps_of_heaps() == before
    full = RuntimeError("no space left")
    with patch.object(torch.UntypedStorage, "_share_fd_cpu_", side_effect=full):
        same_gradients(wide())
    assert maps_of_heaps() == before
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 10
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, limits[1]))
    same_gradients(wide())
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert maps_of_heaps() == before


def buckets_outlive_their_group():
    """A model that is still there when its group is not has its buckets as before."""
    group = dist.new_group()
    model = wide(process_group=group)
    same_gradients(model)
    dist.destroy_process_group(group)
    with model.no_sync():
        model(torch.ones(4, 200)).square().mean().backward()
    assert maps_of_heaps()


def resized():
    """What was sent can be given another size."""
    for dtype in (*DTYPES, torch.float8_e5m2):
        tensor = torch.zeros(6).to(dtype)
        dist.broadcast(tensor, 0)
        tensor.untyped_storage().resize_(1 << 16)
        tensor.untyped_storage().resize_(0)
