"""The reductions of torch."""

from typing import Any

import torch.distributed as dist
from torch import Tensor

OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}

#: The same by number, for torch takes long to hash and compare its ops.
BY_NUMBER = {int(op): ours for op, ours in OPS.items()}


def operands(tensor: Tensor, reduction: Any) -> tuple[Tensor, str]:
    """What is to be reduced, and by which op of ours.

    Raises
    ------
    ValueError
        If there is none.
    """
    op = reduction.op
    known = BY_NUMBER.get(int(op))
    if known is not None:
        return tensor, known
    if op == dist.ReduceOp.PREMUL_SUM:
        is_float8 = tensor.is_floating_point() and tensor.element_size() == 1
        factors = tensor.float() if is_float8 else tensor  # which torch cannot multiply
        _, factor = reduction.__getstate__()  # which older versions show nowhere else
        return (factors * factor).to(tensor.dtype), "sum"
    names = ", ".join(map(name_of, OPS))
    raise ValueError(f"collalgo has no {op}; choose one of {names}, PREMUL_SUM")


def name_of(op: Any) -> str:
    """What torch calls an op, as ``SUM``."""
    return str(op).rsplit(".", 1)[-1]
