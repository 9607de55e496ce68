"""Circulant graphs for data in blocks: the fewest rounds there can be (Traeff 2022).

In every round a rank sends one block by the skip of the round and receives another, so
that n blocks reach all ranks in n - 1 + ceil(log2 size) rounds. Which block comes to a
rank is written in its table, and what it sends is what its peer's table asks for.

>>> from collalgo import verify
>>> print(verify("circulant", size=17, collective="broadcast", blocks=10))
broadcast of 17 ranks: 14 steps, 7/5 n bytes, 80 links, same bits on every rank
"""

from functools import cache

from collalgo.algorithms.circulant import skips
from collalgo.schedule import (
    Chunks,
    Group,
    Steps,
    divide,
    recv,
    reverse,
    send,
)


def base_block(rank: int, size: int) -> int:
    """In which round of the first phase a rank gets its first block."""
    distances = skips(size)
    for k in range(len(distances) - 1, -1, -1):
        if distances[k] == rank:
            return k
        if distances[k] < rank:
            rank -= distances[k]
    return len(distances) - 1


@cache
def receives(rank: int, size: int) -> list[int]:
    """Which block a rank receives in each round of a phase.

    Its base block counts from the first of the phase, the others, negative, from the
    first of the next. The search takes the longest ways from position 0 to the rank
    that are short enough to arrive in time, each of another last skip.
    """
    distances = skips(size)
    rounds = len(distances) - 1
    base = base_block(rank, size)
    left = [k for k in range(rounds, -1, -1) if k != base]
    found: list[int] = []

    def late(place: int, ahead: int) -> bool:
        """Whether it is too far from a place for the round after ``ahead`` others."""
        return place > size + rank - distances[len(found) + ahead]

    def search(place: int, bound: int) -> int:
        """Find rounds for ways through a place below ``bound``; the new bound."""
        for k in list(left):
            if len(found) == rounds:
                break
            step = place + distances[k]
            if k not in left or step >= bound or late(step, 0):
                continue
            if not late(step, 1):
                bound = search(step, bound)
            if len(found) == rounds or late(place, 1):
                break
            found.append(k)
            left.remove(k)
            bound = step
        return bound

    search(0, 2 * size)
    return [base if k == rounds else k - rounds for k in found]


def broadcast(group: Group, blocks: int = 8) -> Steps:
    """In each round every rank passes one block on and gets another, a new one."""
    distances = skips(group.size)
    rounds = len(distances) - 1
    parts = divide(group.whole, blocks)
    unused = -(blocks - 1) % rounds if rounds else 0

    def part(position: int, number: int) -> Chunks | None:
        """What a position receives in a round; None for nothing."""
        phase, k = divmod(number, rounds)
        block = receives(position % group.size, group.size)[k] + phase * rounds - unused
        return parts[min(block, blocks - 1)] if block >= 0 else None

    for number in range(unused, unused + blocks - 1 + rounds if rounds else 0):
        skip = distances[number % rounds]
        above, below = group.rank + skip, group.rank - skip
        leaving = part(above, number) if above % group.size else None
        coming = part(group.rank, number) if group.rank else None
        yield (
            send(group.peer(above), leaving) if leaving else None,
            recv(group.peer(below), coming) if coming else None,
        )


def reduce(group: Group, blocks: int = 8) -> Steps:
    """The broadcast backwards."""
    yield from reverse(broadcast(group, blocks))


def allreduce(group: Group, blocks: int = 8) -> Steps:
    """Sum block by block at one rank, then tell everyone block by block."""
    yield from reduce(group, blocks)
    yield from broadcast(group, blocks)
