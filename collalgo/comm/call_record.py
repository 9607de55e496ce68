"""The record of a call that the ranks compare, as numbers."""

from typing import Any

from collalgo.base.digest import blake2b
from collalgo.comm.call_text import NO_OP, UNEVEN
from collalgo.engine.call import Call
from collalgo.engine.dtypes import dtype_code, dtype_description
from collalgo.engine.reduction import op_code
from collalgo.schedule.collective import COLLECTIVES


def record_of(
    call: Call, name: str, count: int | None = None, *length: object
) -> tuple[Any, ...]:
    """The record that the ranks compare, of a call or, without a length, of a kind.

    Parameters
    ----------
    call
        The call, under its plain name.
    name
        The name of its algorithm.
    count
        Its elements, if they are compared as such.
    *length
        Further numbers of its length that are compared.
    """
    op = op_code(call.op) if call.op else NO_OP
    collective = list(COLLECTIVES).index(call.collective)
    dtype = dtype_code(call.dtype)
    described = dtype_description(call.dtype)
    compared = _fingerprint(collective, described, op, call.root, count, *length, name)
    if op == NO_OP and call.counts is not None:  # which names it, only
        op = UNEVEN
    return (compared, collective, dtype, op, call.root, count, name)


def blocks_passed(call: Call, rank: int, size: int) -> tuple[int, int]:
    """The first and the last end of the blocks that a rank passes with counts."""
    if call.counts is None:
        return 0, 0
    if call.collective == "alltoall":
        return rank * size, (rank + 1) * size
    if call.collective == "reduce_scatter":
        return 0, size
    at_root = call.collective == "scatter" and rank == call.root
    return (0, size) if at_root else (rank, rank + 1)


def _fingerprint(*compared: object) -> int:
    digest = blake2b(repr(compared).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
