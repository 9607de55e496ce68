"""Halving-doubling: half of the remaining data with each peer (Rabenseifner 2004).

>>> from collalgo import verify
>>> print(verify("halving_doubling", size=8, collective="allreduce"))
allreduce of 8 ranks: 6 steps, 7/4 n bytes, 24 links, same bits on every rank
>>> print(verify("halving_doubling", size=12, collective="allreduce"))
allreduce of 12 ranks: 8 steps, 15/4 n bytes, 32 links, same bits on every rank
"""

from collalgo.algorithms.fold import fold, nothing, own_chunk, whole
from collalgo.algorithms.radix import factors, smooth
from collalgo.schedule import Group, Steps, recv, recv_reduce, reverse, send


def halve(group: Group, radix: int = 2) -> Steps:
    """Exchange parts with ever nearer peers, down to my own summed chunk."""
    span = group.size
    for factor in factors(group.size, radix):
        span //= factor
        keep = group.rank - group.rank % span
        first = keep - keep // span % factor * span
        others = [i for i in range(first, first + factor * span, span) if i != keep]
        peers = [group.peer(group.rank - keep + start) for start in others]
        yield (
            *(
                send(peer, group.chunks(start, start + span))
                for peer, start in zip(peers, others, strict=True)
            ),
            *(recv_reduce(peer, group.chunks(keep, keep + span)) for peer in peers),
        )


def double(group: Group, radix: int = 2) -> Steps:
    """The reversed halving: complete chunks come back from the same peers."""
    yield from reverse(halve(group, radix), combine=False)


@fold(whole, whole, smooth)
def allreduce(group: Group, radix: int = 2) -> Steps:
    """Reduce-scatter by halving, then allgather by doubling."""
    yield from halve(group, radix)
    yield from double(group, radix)


@fold(whole, own_chunk, smooth)
def reduce_scatter(group: Group, radix: int = 2) -> Steps:
    """Recursive halving, for any number of ranks."""
    yield from halve(group, radix)


@fold(own_chunk, whole, smooth)
def allgather(group: Group, radix: int = 2) -> Steps:
    """Recursive doubling, for any number of ranks."""
    yield from double(group, radix)


@fold(whole, nothing, smooth)
def reduce(group: Group, radix: int = 2) -> Steps:
    """Reduce-scatter by halving, then gather at the root."""
    yield from halve(group, radix)
    yield from collect(group, radix)


def collect(group: Group, radix: int = 2) -> Steps:
    """Gather the chunks at the first rank, over the distances of the halving.

    So no peer is met twice in steps that a pipeline makes one of.
    """
    span = 1
    for factor in reversed(factors(group.size, radix)):
        place = group.rank % (span * factor)
        if place == 0:
            starts = range(group.rank + span, group.rank + factor * span, span)
            yield tuple(recv(group.peer(i), group.chunks(i, i + span)) for i in starts)
        elif place % span == 0:
            end = group.rank + span
            yield send(group.peer(group.rank - place), group.chunks(group.rank, end))
        else:
            yield ()
        span *= factor
