"""Reduce sparse tensors: gather all entries, and add those of equal index."""

from math import prod
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from collalgo.comm.communicator import Communicator
from collalgo.errors import MismatchError
from collalgo.integrations.torch.ops import name_of
from collalgo.integrations.torch.tensors import array_of, flat

#: What errors call the first exchange.
SPARSE = "sparse allreduce"

OPS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


def reduce_sparse(
    tensor: Tensor, reduction: Any, comm: Communicator, timeout: float | None
) -> None:
    """Replace a sparse tensor by the reduction of those of all ranks.

    The result is coalesced and bitwise equal on all ranks. Dense dimensions may follow
    the sparse ones.

    Raises
    ------
    ValueError
        For any op but SUM and AVG, and for AVG of integers.
    MismatchError
        If the ranks pass different shapes or ops.
    """
    op = reduction.op
    _check_supported(op, tensor)
    mine = tensor.detach().coalesce()
    indices, values = mine.indices(), mine.values()
    form = [len(values), OPS.index(op), mine.sparse_dim(), *mine.shape]
    forms = comm._runner.exchange(np.array(form, np.int64), SPARSE, timeout)
    _check_alike(forms[:, 1:])

    def all_rows(rows: Tensor) -> Tensor:
        width = prod(rows.shape[1:])
        found = rows.new_empty(int(forms[:, 0].sum()), *rows.shape[1:])
        counts = (forms[:, 0] * width).tolist()
        source, out = array_of(flat(rows)), array_of(flat(found))
        comm.allgatherv(source, counts, out=out, timeout=timeout)
        return found

    where, what = all_rows(indices.t()), all_rows(values)
    total = torch.sparse_coo_tensor(
        where.t(), what, mine.shape, check_invariants=False
    ).coalesce()
    tensor.copy_(total / comm.size if op == OPS[1] else total)


def _check_supported(op: Any, tensor: Tensor) -> None:
    """Check that sparse tensors of this dtype can be reduced by an op."""
    if op not in OPS or (op == OPS[1] and not tensor.dtype.is_floating_point):
        raise ValueError(
            f"collalgo: sparse tensors of {tensor.dtype} cannot be reduced by {op}; "
            "choose SUM, or for floats AVG, or pass tensor.to_dense()"
        )


def _check_alike(forms: Any) -> None:
    """Check that all ranks pass the same op and shape."""
    differs = (forms != forms[0]).any(axis=1)
    if differs.any():
        other = int(differs.argmax())
        first, theirs = map(_called, forms[[0, other]].tolist())
        raise MismatchError(
            f"allreduce: rank 0 called {first}, rank {other} {theirs}; call the "
            "same on all ranks"
        )


def _called(form: list[int]) -> str:
    op, dims, *shape = form
    name = name_of(OPS[op])
    return (
        f"{name} of a sparse tensor of shape {tuple(shape)}, {dims} dimensions sparse"
    )
