"""What ranks do under torch in the tests: a script for collalgo run or torchrun.

``script_under_torch.py DUTY...``, each a function of this file.
"""

import copy
import gc
import json
import math
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch import nn

import collalgo

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.complex64,
)


def values(rank, dtype=torch.float32, count=6):
    """What a rank contributes: small whole numbers, exact in every dtype."""
    return ((torch.arange(count) * (rank + 2) + rank) % 5).to(dtype)


def equal(found, expected):
    assert found.dtype == expected.dtype, (found.dtype, expected.dtype)
    assert torch.equal(found, expected), (found, expected)


def total(dtype, ranks, count=6):
    return sum(values(rank, dtype, count) for rank in ranks)


def finished(work):
    """Wait for a call in the background in one of the ways there are."""
    if dist.get_rank() % 2:
        assert work.wait()
    else:
        work.get_future().wait()
    assert work.is_completed()


def every_collective():
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = range(size)
    for dtype in DTYPES:
        mine, expected = values(rank, dtype), total(dtype, everyone)
        found = mine.clone()
        dist.all_reduce(found)
        equal(found, expected)
        found = mine.clone()
        finished(dist.all_reduce(found, async_op=True))
        equal(found, expected)
        found = mine.clone().reshape(2, 3).t()  # which is not contiguous
        dist.all_reduce(found)
        equal(found.t().reshape(-1), expected)
        for root in everyone:
            found = mine.clone()
            dist.reduce(found, root)
            equal(found, expected if rank == root else mine)
            dist.broadcast(found, root)
            equal(found, expected)
            rows = [torch.zeros_like(mine) for _ in everyone] if rank == root else None
            dist.gather(mine, rows, root)
            if rank == root:
                for other, row in enumerate(rows):
                    equal(row, values(other, dtype))
            found = torch.zeros_like(mine)
            dist.scatter(found, rows, root)
            equal(found, mine)
        rows = [torch.zeros_like(mine) for _ in everyone]
        finished(dist.all_gather(rows, mine, async_op=True))
        for other, row in enumerate(rows):
            equal(row, values(other, dtype))
        table = torch.zeros(size, 6, dtype=dtype)
        dist.all_gather_into_tensor(table, mine)
        equal(table, torch.stack(rows))
        parts = list(table.unbind())  # which lie one behind the other
        for part in parts:
            part.zero_()
        dist.all_gather(parts, mine)
        equal(table, torch.stack(rows))
        found = torch.zeros(6, dtype=dtype)
        dist.reduce_scatter_tensor(found, table)
        equal(found, size * values(rank, dtype))
        dist.reduce_scatter(found, [row.clone() for row in rows])
        equal(found, size * values(rank, dtype))
    dist.barrier()
    dist.group.WORLD.monitored_barrier(timedelta(seconds=30), wait_all_ranks=True)


def pieces_of(rank, dtype):
    """What a rank has for each other: rows of two, of numbers that differ."""
    splits = [(rank + other) % 3 for other in range(dist.get_world_size())]
    return values(rank, dtype, 2 * sum(splits)).reshape(-1, 2).split(splits)


def swaps():
    rank, everyone = dist.get_rank(), range(dist.get_world_size())
    for dtype in DTYPES:
        table = torch.stack([values(other, dtype) for other in everyone])
        swapped = torch.zeros_like(table)
        dist.all_to_all_single(swapped, table + rank)
        equal(swapped, torch.stack([values(rank, dtype) + i for i in everyone]))
        mine = pieces_of(rank, dtype)
        expected = [pieces_of(other, dtype)[rank] for other in everyone]
        swapped = torch.zeros_like(torch.cat(expected))
        splits = [len(piece) for piece in expected], [len(piece) for piece in mine]
        dist.all_to_all_single(swapped, torch.cat(mine), *splits)
        equal(swapped, torch.cat(expected))
        outputs = [torch.zeros_like(piece) for piece in expected]
        dist.all_to_all(outputs, list(mine))
        for found, piece in zip(outputs, expected, strict=True):
            equal(found, piece)


def every_op():
    rank, size = dist.get_rank(), dist.get_world_size()
    all_values = torch.stack([values(i) for i in range(size)])
    for op, expected in (
        (dist.ReduceOp.MAX, all_values.amax(0)),
        (dist.ReduceOp.MIN, all_values.amin(0)),
        (dist.ReduceOp.PRODUCT, all_values.prod(0)),
        (dist.ReduceOp.AVG, all_values.sum(0) / size),
        (dist._make_nccl_premul_sum(2.0), 2 * all_values.sum(0)),
    ):
        found = values(rank)
        dist.all_reduce(found, op)
        torch.testing.assert_close(found, expected)
        found = values(rank)
        dist.reduce(found, size - 1, op)
        torch.testing.assert_close(
            found, expected if rank == size - 1 else values(rank)
        )
        source = values(rank).repeat(size)
        dist.reduce_scatter_tensor(found, source, op)
        torch.testing.assert_close(found, expected)
        equal(source, values(rank).repeat(size))
    found = torch.tensor([1 << rank])
    dist.all_reduce(found, dist.ReduceOp.BOR)
    assert found.item() == (1 << size) - 1


def sparse_tensors():
    """Some that overlap, some that are empty, some with dense rows."""
    from collalgo import MismatchError

    rank, size = dist.get_rank(), dist.get_world_size()

    def dense(i, dtype, *shape):
        count = 3 * 5 * math.prod(shape)
        mask = (torch.arange(15) % (i + 2) == 0).view(3, 5, *[1] * len(shape))
        return values(i, dtype, count).view(3, 5, *shape) * mask * (i != 1)

    for dtype in DTYPES[:-1]:  # torch itself makes others of complex ones
        for shape in ((), (2,), (2, 3)):
            found = dense(rank, dtype, *shape).to_sparse(2)
            expected = sum(dense(i, dtype, *shape) for i in range(size))
            work = dist.all_reduce(found, async_op=rank % 2 == 0)
            if work is not None:
                finished(work)
            assert found.is_coalesced()
            equal(found.to_dense(), expected)
    found = torch.sparse_coo_tensor([[1, 1]], [1.0, 2.0], (4,))  # not coalesced
    dist.all_reduce(found, dist.ReduceOp.AVG)
    equal(found.to_dense(), torch.tensor([0.0, 3.0, 0.0, 0.0]))
    op = dist.ReduceOp.AVG if rank else dist.ReduceOp.SUM
    for tensor, its_op, words in (
        (torch.zeros(2 + rank, 3), dist.ReduceOp.SUM, ("(2, 3)", "(3, 3)")),
        (torch.zeros(2, 3), op, ("SUM", "AVG")),
    ):
        try:
            dist.all_reduce(tensor.to_sparse(), its_op)
        except MismatchError as error:
            assert all(word in str(error) for word in words), error
        else:
            raise AssertionError(words)


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


def objects_and_messages():
    rank, size = dist.get_rank(), dist.get_world_size()
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [each["rank"] for each in found] == list(range(size))
    told = ["told", 7] if rank == 0 else [None, None]
    dist.broadcast_object_list(told)
    assert told == ["told", 7]
    right, left = (rank + 1) % size, (rank - 1) % size
    taken = torch.zeros(6)
    requests = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, values(rank), right),
            dist.P2POp(dist.irecv, taken, left),
        ]
    )
    for request in requests:
        request.wait()
    equal(taken, values(left))
    if rank == 0:
        dist.send(values(7), 1, tag=3)
    elif rank == 1:
        dist.recv(taken, 0, tag=3)
        equal(taken, values(7))
    if rank == 0:
        for _ in range(size - 1):
            source = dist.recv(taken, tag=4)
            equal(taken, values(source))
    else:
        dist.send(values(rank), 0, tag=4)
    with dist._coalescing_manager(async_ops=True) as manager:
        tensors = [values(rank, count=count) for count in (1, 100, 6)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        equal(tensor, total(torch.float32, range(size), len(tensor)))


def groups():
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = list(range(size))
    for _ in range(3):
        for members in ([0, size - 1], everyone[::-1], everyone[::2]):
            group = dist.new_group(members)
            if rank in members:
                found = values(rank)
                dist.all_reduce(found, group=group)
                equal(found, total(torch.float32, members))
                dist.destroy_process_group(group)
    pair = dist.new_group([0, 1])
    if rank < 2:
        assert dist.get_backend(pair) == "collalgo"


def functional():
    """The collectives that torch.compile and DTensor are made of."""
    from torch.distributed import _functional_collectives as functions

    rank, size = dist.get_rank(), dist.get_world_size()
    world = dist.group.WORLD
    found = functions.all_reduce(values(rank), "sum", world)
    equal(functions.wait_tensor(found), total(torch.float32, range(size)))
    found = functions.all_gather_tensor(values(rank), 0, world)
    expected = torch.cat([values(i) for i in range(size)])
    equal(functions.wait_tensor(found), expected)
    found = functions.reduce_scatter_tensor(expected.clone(), "sum", 0, world)
    equal(functions.wait_tensor(found), size * values(rank))
    found = functions.all_to_all_single(expected.clone(), None, None, world)
    equal(functions.wait_tensor(found), values(rank).repeat(size))
    found = functions.broadcast(values(rank), 1, world)
    equal(functions.wait_tensor(found), values(1))


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


def sum_of(gradient, group, made_by):
    """Sum a gradient in the background, and note which thread has done it."""
    total = gradient.clone()
    future = dist.all_reduce(total, group=group, async_op=True).get_future()
    future.then(lambda _: made_by.append(threading.get_ident()))
    return total, future


def backward(hook):
    """A backward pass with a hook, whose gradient is 2 everywhere."""
    x = torch.ones(1000, requires_grad=True)
    x.register_hook(hook)
    (2 * x).sum().backward()


def ends_of_backward_passes():
    """What is called in a pass is made at its end, but not of all groups at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pairs = [sorted({first, (first + 1) % size}) for first in range(size)]
    groups = [dist.new_group(pair) for pair in pairs]
    around = (groups[rank], groups[rank - 1])  # each rank calls in its own first
    at_end = 0
    for called_in in 10 * [(dist.group.WORLD, *around), around]:
        found, made_by = [], []

        def hook(gradient, called_in=called_in, found=found, made_by=made_by):
            found.extend(sum_of(gradient, group, made_by) for group in called_in)

        backward(hook)
        at_end += made_by.count(threading.get_ident())
        for (total, future), group in zip(found, called_in, strict=True):
            future.wait()
            equal(total, torch.full((1000,), 2.0 * group.size()))
    assert at_end > 10  # of 20, as a thread does not wait for ever


def waits_in_backward_passes():
    """What is waited for in a pass is made at once."""

    def hook(gradient, follow, made_by):
        total, future = sum_of(gradient, dist.group.WORLD, made_by)
        follow(future).wait()
        equal(total, torch.full((1000,), 2.0 * dist.get_world_size()))

    for follow in (lambda future: future, lambda future: future.then(id)):
        made_by = []
        for _ in range(20):
            backward(partial(hook, follow=follow, made_by=made_by))
        assert made_by.count(threading.get_ident()) > 10


def what_follows_fails():
    """An error in what follows a call is that of the future."""
    work = dist.all_reduce(values(0), async_op=True)
    future = work.get_future().then(lambda _: 1 // 0).then(lambda done: done.value())
    try:
        future.wait()
    except Exception as error:
        assert "by zero" in str(error), error
    else:
        raise AssertionError("no error")


def profiles():
    """The profiler sees calls by the names that they have with other backends."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ) as profile:
        dist.all_reduce(values(rank))
        work = dist.all_reduce(values(rank), async_op=True)
        dist.all_gather([values(0) for _ in range(size)], values(rank))
        received = dist.irecv(values(0), (rank - 1) % size)
        dist.send(values(rank), (rank + 1) % size)
        received.wait()
        work.wait()
    found = Counter(event.name for event in profile.events())
    assert found["collalgo:all_reduce"] == 2, found
    for name in ("all_gather", "send", "recv"):
        assert found[f"collalgo:{name}"] == 1, found


def traces():
    """A trace has the calls of torch, at the user's lines, with the buckets of DDP."""
    path = f"{tempfile.gettempdir()}/collalgo-trace-{os.environ['MASTER_PORT']}.json"
    model = nn.Sequential(*[nn.Linear(300, 300) for _ in range(6)])
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.8)
    data = torch.ones(4, 300)
    with collalgo.trace(path, force=True):
        for _ in range(3):
            model(data).sum().backward()
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3), async_op=True).wait()
    if dist.get_rank() == 0:
        calls = [
            event for event in json.loads(Path(path).read_text())["traceEvents"]
            if "collective" in event.get("args", {}) and event["tid"] == 0
        ]  # fmt: skip
        names = [call["args"]["name"] for call in calls]
        assert names.count("bucket 0") == 3, names
        assert names.count("bucket 1") >= 2, names
        assert names[-2:] == ["", ""], names
        lines = [int(call["args"]["place"].rpartition(":")[2]) for call in calls]
        assert all(call["args"]["place"].startswith(f"{__file__}:") for call in calls)
        first = traces.__code__.co_firstlineno + 8
        assert set(lines) == {first, first + 1, first + 2}, lines
        Path(path).unlink()


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


def resized():
    """What was sent can be given another size."""
    for dtype in (*DTYPES, torch.float8_e5m2):
        tensor = torch.zeros(6).to(dtype)
        dist.broadcast(tensor, 0)
        tensor.untyped_storage().resize_(1 << 16)
        tensor.untyped_storage().resize_(0)


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


def what_cannot_be():
    rank = dist.get_rank()
    for wrong, kind, words in (
        (lambda: dist.all_reduce(torch.eye(3).to_sparse_csr()), TypeError, "dense"),
        (
            lambda: dist.all_reduce(torch.eye(3).to_sparse(), dist.ReduceOp.MAX),
            ValueError,
            "to_dense",
        ),
        (lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), TypeError, "band"),
        (lambda: dist.all_reduce(torch.ones(3, device="meta")), TypeError, "meta"),
        (lambda: dist.broadcast(quantized(torch.ones(3)), 0), TypeError, "quint8"),
    ):
        try:
            wrong()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    dist.all_reduce(values(rank))
    from collalgo import MismatchError

    part = dist.new_group(range(dist.get_world_size()))
    try:
        dist.all_reduce(torch.ones(3 + rank), group=part)
        dist.barrier(part)
    except MismatchError as error:
        assert "elements" in str(error)
    else:
        raise AssertionError("counts that differ")
    try:
        if rank:
            dist.all_reduce(torch.ones(3))
        else:
            dist.new_group(range(dist.get_world_size()))
    except MismatchError as error:
        assert "rank 0 called group [0, 1" in str(error), error
        assert "called allreduce" in str(error), error
    else:
        raise AssertionError("a group beside another call")


def quantized(tensor):
    return torch.quantize_per_tensor(tensor, 0.1, 0, torch.quint8)


def lazy_views():
    """Of a negative view, the memory holds the other sign."""
    rank, size = dist.get_rank(), dist.get_world_size()

    def view(base):
        found = (1j * torch.arange(6.0) * base).conj().imag
        assert found.is_neg()
        return found

    everyone = sum(-torch.arange(6.0) * (i + 1) for i in range(size))
    for async_op in (False, True):
        found = view(rank + 1)
        work = dist.all_reduce(found, async_op=async_op)
        if async_op:
            work.wait()
        equal(found, everyone)
    found = view(rank + 1)
    dist.reduce(found, 1)
    equal(found, everyone if rank == 1 else view(rank + 1))
    found = view(rank + 1)
    dist.broadcast(found, 1)
    equal(found, view(2))
    rows = [view(0) for _ in range(size)]
    dist.all_gather(rows, view(rank + 1))
    for i, row in enumerate(rows):
        equal(row, view(i + 1))
    found = view(0)[: 6 // size * size]
    dist.all_to_all_single(found, view(1)[: len(found)])
    if rank < 2:
        found = view(rank + 1)
        if rank:
            dist.recv(found, 0)
        else:
            dist.send(found, 1)
        equal(found, view(1))
    base = torch.full((3,), 1 + 2j)
    world = dist.group.WORLD
    world.allreduce([base.conj()]).wait()
    equal(base, torch.full((3,), size * (1 + 2j)))


def results_are_in_place():
    """Who waits goes on only when the result is there, whoever brings it there."""
    from collalgo.integrations.torch.work import GroupWork

    for first, second in (("get_future", "wait"), ("wait", "get_future")):
        begun, there = threading.Event(), []

        def bring(begun=begun, there=there):
            begun.set()
            time.sleep(0.2)
            there.append(True)

        work = GroupWork([], [], [bring])
        bringer = threading.Thread(target=getattr(work, first))
        bringer.start()
        begun.wait()
        getattr(work, second)()
        assert there
        bringer.join()


class Ending:
    """A call in the background that ends when it is told to."""

    def __init__(self):
        self.ended, self.callbacks = False, []

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def done(self):
        return self.ended

    def wait(self, _):
        assert self.ended

    def exception(self):
        return None

    def end(self):
        self.ended = True
        for callback in self.callbacks:
            callback(self)


def futures_are_of_all_calls():
    """As messages of other ranks, of which the last may be the first to end."""
    from collalgo.integrations.torch.work import GroupWork

    first, last = Ending(), Ending()
    future = GroupWork([first, last], []).get_future()
    last.end()
    assert not future.done()
    first.end()
    assert future.done()


def two_hosts():
    from collalgo.comm.communicator import Communicator

    comm = dist.group.WORLD.comm
    assert isinstance(comm, Communicator)
    assert comm.hosts == (0, *[1] * (comm.size - 1))


def one_dies():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher, which is in haste
    dist.barrier()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(values(0), async_op=True)
    try:
        work.wait()
    except Exception as error:
        print(type(error).__name__, error, flush=True)
        time.sleep(0.2)
        os._exit(0)
    raise AssertionError("nobody has died")


def elastic_state():
    """Modules, optimizers and tensors go back to a commit, and to a checkpoint."""
    from collalgo import elastic

    model, comm = nn.Linear(3, 2), dist.group.WORLD.comm
    optimizer = torch.optim.Adam(model.parameters())
    tensors = [torch.ones(2), torch.full((3,), 0.5, dtype=torch.bfloat16)]
    state = elastic.State(model=model, optimizer=optimizer, tensors=tensors)

    def step():
        optimizer.zero_grad()
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
        tensors[0] += 1

    step()
    for _ in range(comm.rank):  # the last rank is the most advanced
        state.commit()
    state.sync(comm)
    state.verify(comm)
    assert state.revision == comm.size - 1
    right = copy.deepcopy(model.state_dict())
    step()
    state.restore()
    with tempfile.TemporaryDirectory() as folder:
        state.checkpoint(Path(folder, "state"))
        for _ in range(2):
            assert all(map(torch.equal, model.state_dict().values(), right.values()))
            assert state.tensors[0].tolist() == [2, 2]
            step()
            state.load(Path(folder, "state"))
    parts = [torch.full((2,), 0.1 * k) for k in range(4)]
    found = elastic.sum_shards(comm, 4, lambda k: [parts[k]])
    assert torch.equal(found[0], (parts[0] + parts[1]) + (parts[2] + parts[3]))


def main():
    # No import of collalgo: torch finds it.
    dist.init_process_group("collalgo", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    for duty in sys.argv[1:]:
        globals()[duty]()
        print(f"{duty}: right {rank};", flush=True)
    dist.destroy_process_group()
    gc.collect()  # models refer to themselves
    assert not any("collalgo" in name for name in os.listdir("/dev/shm"))
    assert not maps_of_heaps()
    print(f"over: right {rank};", flush=True)


main()
