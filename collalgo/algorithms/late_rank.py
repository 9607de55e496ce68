"""Late rank: the others combine their data while they wait for it (Devraj et al. 2025).

StragglAR sends the data of the late rank block by block; here all blocks meet it at
once, in pieces, so that no link waits for more than one piece of the data. After the
late rank arrives, the call takes about as long as sending one rank's buffer once.

>>> from collalgo import verify
>>> print(verify("late_rank", size=8, collective="allreduce", late=2, blocks=16))
allreduce of 8 ranks: 20 steps, 107/56 n bytes, 56 links, same bits on every rank
"""

from collalgo.algorithms import circulant
from collalgo.algorithms.hosts import subset_of
from collalgo.schedule import (
    Chunks,
    Group,
    Steps,
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
