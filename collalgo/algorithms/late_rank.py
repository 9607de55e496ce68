"""Late rank: the others combine their data while they wait for it (Devraj et al. 2025).

StragglAR sends the data of the late rank block by block; here all blocks meet it at
once, in pieces, so that no link waits for more than one piece of the data. After the
late rank arrives, the call takes about as long as sending one rank's buffer once.

>>> from collalgo import verify
>>> print(verify("late_rank", size=8, collective="allreduce", late=2, blocks=16))
allreduce of 8 ranks: 20 steps, 107/56 n bytes, 56 links, same bits on every rank
"""

from collections.abc import Iterator, Sequence

from collalgo.algorithms import circulant, circulant_blocks
from collalgo.algorithms.hosts import subset_of
from collalgo.schedule import (
    Chunks,
    Group,
    Kind,
    Steps,
    Transfer,
    divide,
    doublings,
    pad,
    pipeline,
    recv,
    recv_reduce,
    send,
)


def allreduce(group: Group, late: int | None = None, blocks: int = 4) -> Steps:
    """The others' sum of a chunk meets the data of the late rank, and goes to all."""
    if group.size == 1:
        return
    last = group.size - 1 if late is None else late
    others = [i for i in range(group.size) if i != last]
    parts = divide(group.whole, len(others))
    if group.rank == last:
        yield from pad(len(doublings(len(others))))
    else:
        yield from circulant.reduce_scatter(subset_of(group, others))
    pieces = zip(*(divide(part, blocks) for part in parts), strict=True)
    yield from pipeline(*(_finish(group, last, others, piece) for piece in pieces))


def _finish(
    group: Group, late: int, others: list[int], piece: tuple[Chunks, ...]
) -> Steps:
    """Swap a piece of each sum with the late rank, then send it to all others."""
    peers = [group.peer(i) for i in others]
    if group.rank == late:
        swapped = zip(peers, piece, strict=True)
        yield tuple(
            verb(peer, part) for peer, part in swapped for verb in (send, recv_reduce)
        )
        yield ()
        return
    mine, rank = piece[others.index(group.rank)], group.peer(late)
    yield send(rank, mine), recv_reduce(rank, mine)
    rest = [
        (peer, part)
        for i, peer, part in zip(others, peers, piece, strict=True)
        if i != group.rank
    ]
    yield (
        *(send(peer, mine) for peer, _ in rest),
        *(recv(peer, part) for peer, part in rest),
    )


def broadcast(group: Group, late: int | None = None, blocks: int = 8) -> Steps:
    """A block meets the others' sum at its first stop; an idle rank returns that sum.

    The others have the whole sum of their data, so that ranks send to one peer at a
    time after the late rank arrives: that takes blocks - 1 + ceil(log2 size) steps.
    """
    last = group.size - 1 if late is None else late
    others = [i for i in range(group.size) if i != last]
    if group.rank == last:
        yield from pad(2 * len(doublings(len(others))))
    else:
        yield from circulant.allreduce(subset_of(group, others))
    around, parts = group.rotated(last), divide(group.whole, blocks)
    sent = circulant_blocks.from_root(group.size, blocks)
    steps = circulant_blocks.broadcast(around, blocks)
    met = set[int | None]([None])
    for (skip, block), step in zip(sent, steps, strict=True):
        if block is None or block in met:
            yield step
            continue
        met.add(block)
        yield *_met(step, around), *_returned(around, skip, parts[block])


def _met(
    step: Transfer | Sequence[Transfer | None], group: Group
) -> Iterator[Transfer]:
    """A step in which data of the root meets the sum of its peer."""
    transfers = (step,) if isinstance(step, Transfer) else step
    for transfer in filter(None, transfers):
        first = transfer.kind is Kind.RECV and transfer.peer == group.peer(0)
        yield recv_reduce(*transfer[1:3]) if first else transfer


def _returned(group: Group, skip: int, part: Chunks) -> Iterator[Transfer]:
    """The sum of the others, from the rank that has no peer to send to in a round."""
    if group.rank == 0:
        yield recv_reduce(group.peer(-skip), part)
    elif (group.rank + skip) % group.size == 0:
        yield send(group.peer(0), part)
