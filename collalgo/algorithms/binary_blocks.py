"""Binary blocks: powers of two of ranks that pass sums on (Rabenseifner 2004).

>>> from collalgo import verify
>>> print(verify("binary_blocks", size=12, collective="allreduce"))
allreduce of 12 ranks: 8 steps, 2 n bytes, 48 links, same bits on every rank
"""

from collalgo.algorithms.halving_doubling import halve
from collalgo.schedule import (
    Group,
    Step,
    Steps,
    divide,
    doublings,
    pad,
    recv_reduce,
    reverse,
    send,
)


def blocks(size: int) -> list[range]:
    """The ranks in blocks of falling powers of two.

    >>> blocks(13)
    [range(0, 8), range(8, 12), range(12, 13)]
    """
    bits = [bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]
    starts = [size >> (bit + 1) << (bit + 1) for bit in bits]
    return [range(a, a + (1 << bit)) for a, bit in zip(starts, bits, strict=True)]


def allreduce(group: Group) -> Steps:
    """Small blocks send their sums to larger ones, and receive the result back."""
    runs = blocks(group.size)
    mine = next(i for i, run in enumerate(runs) if group.rank in run)
    block = group.subset(runs[mine])
    assert block is not None
    rounds = len(doublings(len(runs[0])))
    yield from pad(rounds, halve(block))
    upwards = [lift(block, runs, mine, group, i) for i in range(len(runs) - 1, 0, -1)]
    yield from upwards
    yield from reverse(iter(upwards), combine=False)
    yield from reverse(pad(rounds, halve(block)), combine=False)


def lift(block: Group, runs: list[range], mine: int, group: Group, lower: int) -> Step:
    """Send the sums of block ``lower`` to the next larger block, in this step."""
    own = block.chunk(block.rank)
    if mine == lower:
        ratio = len(runs[mine - 1]) // block.size
        above = runs[mine - 1][block.rank * ratio :]
        pieces = zip(above, divide(own, ratio), strict=False)
        return tuple(send(group.peer(i), piece) for i, piece in pieces)
    if mine == lower - 1:
        below = runs[lower][block.rank * len(runs[lower]) // block.size]
        return (recv_reduce(group.peer(below), own),)
    return ()
