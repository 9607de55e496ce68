"""Tensors as arguments of the library's own calls: their results are tensors, too.

A script for an environment with torch; each rank is a thread.
"""

import warnings

import numpy as np
import torch

import collalgo
from collalgo.integrations.torch.tensors import MOVED

DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)


def quantised(scale, zero_point, dtype=torch.quint8):
    """Three rows of two quantised numbers."""
    values = torch.arange(6.0).reshape(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are deprecated
        return torch.quantize_per_tensor(values, scale, zero_point, dtype)


def same(found, expected):
    assert type(found) is torch.Tensor, type(found)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.is_quantized:
        assert found.q_scale() == expected.q_scale()
        found, expected = found.int_repr(), expected.int_repr()
    if (word := MOVED.get(found.dtype)) is not None:
        found, expected = found.view(word), expected.view(word)
    if found.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    assert torch.equal(found.cpu().double(), expected.double())


def moved(comm, mine, table):
    """Make every call that makes an array, of ``mine`` on all ranks alike."""
    size, rank = comm.size, comm.rank
    same(comm.allgather(mine), table)
    same(comm.allgather_async(mine).wait(), table)
    flat = table.reshape(-1, *mine.shape[1:])
    same(comm.allgatherv(mine), flat)
    gathered = comm.gather(mine, size - 1), comm.gatherv(mine, root=size - 1)
    if rank == size - 1:
        same(gathered[0], table)
        same(gathered[1], flat)
    same(comm.alltoall(table), table)
    same(comm.alltoallv(flat, [len(mine)] * size), flat)
    root = rank == 0
    same(comm.scatter(table if root else mine.clone(), 0), mine)
    same(comm.scatterv(flat if root else mine.clone(), [len(mine)] * size, 0), mine)


def every_dtype(comm):
    size = comm.size
    for dtype in DTYPES:
        mine = torch.arange(6).reshape(3, 2).remainder(2).to(dtype)
        moved(comm, mine, torch.stack([mine] * size))
        total = comm.allreduce(mine.clone())
        wide = torch.complex128 if dtype.is_complex else torch.float64
        expected = mine.to(wide) * size if dtype != torch.bool else mine
        same(total, expected.to(dtype))
        rows = torch.stack([mine] * size)
        if not dtype.is_complex:
            same(comm.reduce_scatter(rows, "max"), mine[None])
    if comm.rank == 0:
        comm.send(torch.ones(3, dtype=torch.bfloat16), size - 1)
    if comm.rank == size - 1:
        same(
            comm.recv(torch.zeros(3, dtype=torch.bfloat16), 0), torch.ones(3).bfloat16()
        )


def every_quantised(comm):
    size = comm.size
    for dtype in (torch.qint8, torch.quint8, torch.qint32):
        mine = quantised(0.5, 3, dtype)
        table = torch._empty_affine_quantized(
            [size, 3, 2], scale=0.5, zero_point=3, dtype=dtype
        )
        for row in table:
            row.copy_(mine)
        moved(comm, mine, table)


def every_moved(comm):
    """Elements that are not reduced move, as integers of the same memory."""
    for dtype, word in MOVED.items():
        words = torch.arange(6, dtype=word).reshape(3, 2)
        moved(comm, words.view(dtype), torch.stack([words] * comm.size).view(dtype))
        is_not_reduced(comm, words.view(dtype), str(dtype))


def is_not_reduced(comm, tensor, words):
    try:
        comm.allreduce(tensor)
    except TypeError as error:
        assert "op 'sum' is not defined for" in str(error), error
        assert words in str(error), error
    else:
        raise AssertionError


def quantised_is_compared(comm):
    """Quantised elements are not reduced, and ranks compare their scale."""
    is_not_reduced(comm, quantised(0.5, 3), "scale 0.5")
    if comm.size == 1:
        return
    try:
        comm.allgather(quantised(0.5 + comm.rank, 3))
    except collalgo.MismatchError as error:
        assert "torch.quint8, scale" in str(error), error
    else:
        raise AssertionError


def others(comm):
    """What is refused, and arrays that are not tensors."""
    try:
        comm.allgather(torch.ones(3, requires_grad=True))
    except TypeError as error:
        assert "detach" in str(error), error
    else:
        raise AssertionError
    x = torch.ones(2)
    out = np.empty((comm.size, 2), np.float32)
    assert comm.allgather(x, out=out) is out
    assert type(comm.allgather(x.numpy())) is np.ndarray


if __name__ == "__main__":
    for size in (1, 2, 3):
        for check in (
            every_dtype, every_quantised, every_moved, quantised_is_compared, others,
        ):  # fmt: skip
            collalgo.threads(check, size)
    print("right")
