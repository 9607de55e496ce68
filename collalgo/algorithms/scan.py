"""Scans: rank r gets the sum of the ranks up to r, or, exclusive, of those before it.

>>> from collalgo import verify
>>> print(verify("recursive_doubling", size=12, collective="scan"))
scan of 12 ranks: 4 steps, 4 n bytes, 33 links, same bits on every rank
>>> proof = verify("123_doubling", size=36, collective="exscan")
>>> proof.rounds
6
"""

from collalgo.algorithms import linear
from collalgo.schedule import (
    Group,
    ScheduleFunction,
    Steps,
    doublings,
    recv,
    recv_reduce,
    send,
    spare,
)


def scan(group: Group) -> Steps:
    """The sum of the last 1, 2, 4, ... ranks moves up by as many ranks."""
    for distance in doublings(group.size):
        yield from shift(group, distance)


def shift(group: Group, distance: int, *, replace: bool = False) -> Steps:
    """Send my sum up by a distance, and receive one from below."""
    take = recv if replace else recv_reduce
    above, below = group.rank + distance, group.rank - distance
    yield (
        send(group.peer(above), group.whole) if above < group.size else None,
        take(group.peer(below), group.whole) if below >= 0 else None,
    )


def shifted(group: Group, inclusive: ScheduleFunction) -> Steps:
    """Shift the values up by one rank, then scan without the first rank."""
    yield from shift(group, 1, replace=True)
    rest = group.subset(range(1, group.size))
    if rest is not None:
        yield from inclusive(rest)


def exscan(group: Group) -> Steps:
    """Shift by one, then recursive doubling."""
    yield from shifted(group, scan)


def linear_exscan(group: Group) -> Steps:
    """Shift by one, then from rank to rank."""
    yield from shifted(group, linear.scan)


def chain_exscan(group: Group) -> Steps:
    """The sum goes from rank to rank, and each adds its value to it in a spare buffer.

    So each link passes the data once, and not twice as after a shift.
    """
    rank, before, both = group.rank, group.whole, spare(group.whole)
    for step in range(1, group.size):
        adds = rank == step < group.size - 1
        yield (
            send(group.right, both if step > 1 else before)
            if rank == step - 1
            else None,
            recv(group.left, before) if rank == step else None,
            send(group.me, before) if adds else None,
            recv(group.me, both) if adds else None,
        )
        yield (
            send(group.me, before) if adds else None,
            recv_reduce(group.me, both) if adds else None,
        )


def one_two_three(group: Group) -> Steps:
    """Skips of 1, 2, 3, 6, 12, ... and one op fewer than rounds (Traeff 2025).

    The second skip sends the sum of the received and the own value, of a spare buffer.
    """
    size = group.size
    yield from one_and_two(group)
    rest = group.subset(range(1, size))
    if rest is not None:
        for distance in (3 * d for d in doublings(size) if 3 * d < rest.size):
            yield from shift(rest, distance)


def one_and_two(group: Group) -> Steps:
    """The skips of 1 and 2."""
    rank, size = group.rank, group.size
    before, both = group.whole, spare(group.whole)
    carries = rank + 2 < size
    yield (
        send(group.right, before) if rank + 1 < size else None,
        recv(group.left, before) if rank else None,
        send(group.me, before) if carries else None,
        recv(group.me, both) if carries else None,
    )
    yield (
        send(group.me, before) if carries and rank else None,
        recv_reduce(group.me, both) if carries and rank else None,
    )
    yield (
        send(group.peer(rank + 2), both) if carries else None,
        recv_reduce(group.peer(rank - 2), before) if rank >= 2 else None,
    )
