"""Duties of ranks under torch: collectives, messages and groups."""

from datetime import timedelta

import torch
import torch.distributed as dist

from tests.support.torch_values import DTYPES, equal, finished, total, values


def allreduces(mine, expected):
    found = mine.clone()
    dist.all_reduce(found)
    equal(found, expected)
    found = mine.clone()
    finished(dist.all_reduce(found, async_op=True))
    equal(found, expected)
    found = mine.clone().reshape(2, 3).t()  # which is not contiguous
    dist.all_reduce(found)
    equal(found.t().reshape(-1), expected)


def rooted_collectives(mine, expected, root):
    rank, everyone = dist.get_rank(), range(dist.get_world_size())
    found = mine.clone()
    dist.reduce(found, root)
    equal(found, expected if rank == root else mine)
    dist.broadcast(found, root)
    equal(found, expected)
    rows = [torch.zeros_like(mine) for _ in everyone] if rank == root else None
    dist.gather(mine, rows, root)
    if rank == root:
        for other, row in enumerate(rows):
            equal(row, values(other, mine.dtype))
    found = torch.zeros_like(mine)
    dist.scatter(found, rows, root)
    equal(found, mine)


def allgathers(mine):
    size, dtype = dist.get_world_size(), mine.dtype
    rows = [torch.zeros_like(mine) for _ in range(size)]
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


def reduce_scatters(dtype):
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = [values(other, dtype) for other in range(size)]
    found = torch.zeros(6, dtype=dtype)
    dist.reduce_scatter_tensor(found, torch.stack(rows))
    equal(found, size * values(rank, dtype))
    dist.reduce_scatter(found, rows)
    equal(found, size * values(rank, dtype))


def every_collective():
    rank, everyone = dist.get_rank(), range(dist.get_world_size())
    for dtype in DTYPES:
        mine, expected = values(rank, dtype), total(dtype, everyone)
        allreduces(mine, expected)
        for root in everyone:
            rooted_collectives(mine, expected, root)
        allgathers(mine)
        reduce_scatters(dtype)
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)


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


def by_op(op, expected):
    rank, size = dist.get_rank(), dist.get_world_size()
    found = values(rank)
    dist.all_reduce(found, op)
    torch.testing.assert_close(found, expected)
    found = values(rank)
    dist.reduce(found, size - 1, op)
    torch.testing.assert_close(found, expected if rank == size - 1 else values(rank))
    source = values(rank).repeat(size)
    dist.reduce_scatter_tensor(found, source, op)
    torch.testing.assert_close(found, expected)
    equal(source, values(rank).repeat(size))


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
        by_op(op, expected)
    found = torch.tensor([1 << rank])
    dist.all_reduce(found, dist.ReduceOp.BOR)
    assert found.item() == (1 << size) - 1


def objects_and_messages():
    objects()
    messages()
    coalesced()


def objects():
    rank, size = dist.get_rank(), dist.get_world_size()
    found = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert [each["rank"] for each in found] == list(range(size))
    told = ["told", 7] if rank == 0 else [None, None]
    dist.broadcast_object_list(told)
    assert told == ["told", 7]


def messages():
    rank, size = dist.get_rank(), dist.get_world_size()
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
    tagged_messages(taken)


def tagged_messages(taken):
    rank, size = dist.get_rank(), dist.get_world_size()
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


def coalesced():
    rank, size = dist.get_rank(), dist.get_world_size()
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
