"""Duties of ranks under torch: tensors that are sparse, lazy views, or refused."""

import math
from functools import partial

import torch
import torch.distributed as dist

from tests.support.torch_values import DTYPES, equal, finished, values


def dense(i, dtype, *shape):
    """What a rank contributes to the sum of sparse tensors; rank 1 nothing."""
    count = 3 * 5 * math.prod(shape)
    mask = (torch.arange(15) % (i + 2) == 0).view(3, 5, *[1] * len(shape))
    return values(i, dtype, count).view(3, 5, *shape) * mask * (i != 1)


def sparse_tensors():
    """Some that overlap, some that are empty, some with dense rows."""
    rank, size = dist.get_rank(), dist.get_world_size()
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
    differing_sparse_tensors()


def differing_sparse_tensors():
    from collalgo import MismatchError

    rank = dist.get_rank()
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


def what_cannot_be():
    refused_tensors()
    dist.all_reduce(values(dist.get_rank()))
    calls_that_differ()


def refused_tensors():
    for wrong, kind, words in (
        (lambda: dist.all_reduce(torch.eye(3).to_sparse_csr()), TypeError, "dense"),
        (
            lambda: dist.all_reduce(torch.eye(3).to_sparse(), dist.ReduceOp.MAX),
            ValueError,
            "to_dense",
        ),
        (lambda: dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND), TypeError, "band"),
        (lambda: dist.all_reduce(torch.ones(3, device="meta")), TypeError, "meta"),
        (lambda: dist.broadcast(quantized_per_row(), 0), TypeError, "quint8"),
        *(
            (wrong, (TypeError, ValueError), words)
            for wrong, words in (*wrong_lists(), *wrong_tensors())
        ),
    ):
        try:
            wrong()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)


def wrong_lists():
    """Lists of a wrong length or shape, and what is said of them."""
    size, rank, x = dist.get_world_size(), dist.get_rank(), torch.ones(2)
    more, longer = [x] * (size + 1), [torch.ones(3)] * size
    many = f"has {size + 1} tensors, but the group has {size} ranks"
    shape = "] has shape (3,), but "
    for make, name in (
        (lambda each: dist.all_gather(each, x), "tensor_list"),
        (lambda each: dist.gather(x, each, group_dst=rank), "gather_list"),
        (lambda each: dist.scatter(x, each, group_src=rank), "scatter_list"),
        (lambda each: dist.reduce_scatter(x, each), "input_list"),
    ):
        yield partial(make, more), f": {name} {many}"
        yield (
            partial(make, longer),
            f": {name}[{rank if 'er_' not in name else 0}{shape}",
        )
    right = [x] * size
    yield lambda: dist.all_to_all(more, right), f"all_to_all: output_tensor_list {many}"
    yield lambda: dist.all_to_all(right, more), f"all_to_all: input_tensor_list {many}"


def wrong_tensors():
    """Single tensors of a wrong length or dtype, and what is said of them."""
    size, x, six = dist.get_world_size(), torch.ones(2), torch.ones(6)
    double, pg = torch.ones(2 * size).double(), dist.group.WORLD
    for call, tensors, words in (
        (dist.all_gather_into_tensor, (x, six), "output_tensor has shape (2,), 2"),
        (dist.all_gather_into_tensor, (double, x), "output_tensor is of torch.flo"),
        (dist.reduce_scatter_tensor, (six, x), "input has shape (2,)"),
        (dist.all_to_all_single, (torch.ones(size), six[: 2 * size]), "output has sh"),
        (pg.allgather, ([[x.double()] * size], [x]), "tensor_list[0] is of torch.flo"),
        (pg.allgather_into_tensor_coalesced, ([x, x], [x]), "got 2 outputs, but 1 in"),
    ):
        yield partial(call, *tensors), f": {words}"


def calls_that_differ():
    from collalgo import MismatchError

    rank = dist.get_rank()
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


def quantized_per_row():
    rows = torch.tensor([0.1, 0.2]), torch.tensor([0, 0])
    return torch.quantize_per_channel(torch.ones(2, 3), *rows, 0, torch.quint8)


def lazy_views():
    """Of a negative view, the memory holds the other sign."""
    reduced_views()
    moved_views()
    base, size = torch.full((3,), 1 + 2j), dist.get_world_size()
    dist.group.WORLD.allreduce([base.conj()]).wait()
    equal(base, torch.full((3,), size * (1 + 2j)))


def view(base):
    found = (1j * torch.arange(6.0) * base).conj().imag
    assert found.is_neg()
    return found


def reduced_views():
    rank, size = dist.get_rank(), dist.get_world_size()
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


def moved_views():
    rank, size = dist.get_rank(), dist.get_world_size()
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
