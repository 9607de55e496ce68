"""Circulant graphs for data in blocks: the minimal number of rounds (Traeff 2022).

In every round a rank sends one block by the skip of the round and receives another, so
that n blocks reach all ranks in n - 1 + ceil(log2 size) rounds. The table of a rank
lists the blocks that it receives; it sends the blocks of its peer's table.

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
    """The round of the first phase in which a rank receives its first block."""
    distances = skips(size)
    for k in range(len(distances) - 1, -1, -1):
        if distances[k] == rank:
            return k
        if distances[k] < rank:
            rank -= distances[k]
    return len(distances) - 1


@cache
def receives(rank: int, size: int) -> list[int]:
    """The block that a rank receives in each round of a phase.

    Its base block counts from the first of the phase, the others, negative, from the
    first of the next. The search takes the longest paths from position 0 to the rank
    that arrive in time, each with another last skip.
    """
    rounds = len(skips(size)) - 1
    base = base_block(rank, size)
    search = Search(rank, size)
    search.through(0, 2 * size)
    return [base if k == rounds else k - rounds for k in search.found]


class Search:
    """The search for the last skips of the paths to a rank, one for each round."""

    def __init__(self, rank: int, size: int):
        self.distances = skips(size)
        self.rounds = len(self.distances) - 1
        self.limit = size + rank
        base = base_block(rank, size)
        self.left = [k for k in range(self.rounds, -1, -1) if k != base]
        self.found: list[int] = []

    def late(self, position: int, ahead: int) -> bool:
        """Whether a position is too far for the round after ``ahead`` others."""
        return position > self.limit - self.distances[len(self.found) + ahead]

    def through(self, position: int, bound: int) -> int:
        """Find skips of paths through a position below ``bound``; the new bound."""
        for k in list(self.left):
            if len(self.found) == self.rounds:
                break
            step = position + self.distances[k]
            if k not in self.left or step >= bound or self.late(step, 0):
                continue
            if not self.late(step, 1):
                bound = self.through(step, bound)
            if len(self.found) == self.rounds or self.late(position, 1):
                break
            self.found.append(k)
            self.left.remove(k)
            bound = step
        return bound


def rounds_of(size: int, blocks: int) -> range:
    """The numbers of the rounds of a broadcast; the first phase may lack some."""
    rounds = len(skips(size)) - 1
    unused = -(blocks - 1) % rounds if rounds else 0
    return range(unused, unused + blocks - 1 + rounds if rounds else 0)


def block_at(position: int, number: int, size: int, blocks: int) -> int | None:
    """The block that a position receives in a round, if any."""
    rounds = len(skips(size)) - 1
    phase, k = divmod(number, rounds)
    unused = -(blocks - 1) % rounds
    block = receives(position % size, size)[k] + phase * rounds - unused
    return min(block, blocks - 1) if block >= 0 else None


def from_root(size: int, blocks: int) -> list[tuple[int, int | None]]:
    """The position that the root sends to in each round, and the block, if any."""
    distances = skips(size)
    return [
        (skip, block_at(skip, number, size, blocks))
        for number in rounds_of(size, blocks)
        for skip in [distances[number % (len(distances) - 1)]]
    ]


def broadcast(group: Group, blocks: int = 8) -> Steps:
    """In each round, every rank sends one block and receives a new one."""
    size, parts = group.size, divide(group.whole, blocks)
    distances = skips(size)

    def part(position: int, number: int) -> Chunks | None:
        """The block that a position receives in a round, if any."""
        block = block_at(position, number, size, blocks)
        return None if block is None else parts[block]

    for number in rounds_of(size, blocks):
        skip = distances[number % (len(distances) - 1)]
        above, below = group.rank + skip, group.rank - skip
        leaving = part(above, number) if above % size else None
        coming = part(group.rank, number) if group.rank else None
        yield (
            send(group.peer(above), leaving) if leaving else None,
            recv(group.peer(below), coming) if coming else None,
        )


def reduce(group: Group, blocks: int = 8) -> Steps:
    """The reversed broadcast."""
    yield from reverse(broadcast(group, blocks))


def allreduce(group: Group, blocks: int = 8) -> Steps:
    """Reduce block by block at one rank, then broadcast block by block."""
    yield from reduce(group, blocks)
    yield from broadcast(group, blocks)
