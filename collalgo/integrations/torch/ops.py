"""Map the reduce ops of torch to ours."""

from typing import Any

import torch.distributed as dist

from collalgo.integrations.torch.tensors import Operand, scaled

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

#: The ops by number, since torch is slow to hash and compare its ops.
BY_NUMBER = {int(op): ours for op, ours in OPS.items()}

#: The same by the hash of an op in options, which is faster to find than the number.
BY_HASH = {hash(dist.ReduceOp(op)): ours for op, ours in OPS.items()}


def reduction_of(operand: Operand, reduction: Any) -> tuple[Operand, str]:
    """The operands, and our name of the op; PREMUL_SUM is the sum of products.

    Raises
    ------
    ValueError
        If we do not have the op.
    """
    op = reduction.op
    known = BY_NUMBER.get(int(op))
    if known is not None:
        return operand, known
    if op == dist.ReduceOp.PREMUL_SUM:
        _, factor = reduction.__getstate__()  # the only access in older versions
        return scaled(operand, factor), "sum"
    names = ", ".join(map(name_of, OPS))
    raise ValueError(f"collalgo has no {op}; choose one of {names}, PREMUL_SUM")


def name_of(op: Any) -> str:
    """The name of an op in torch, such as ``SUM``."""
    return str(op).rsplit(".", 1)[-1]
