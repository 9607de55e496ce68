"""The vocabulary of an algorithm: three verbs, steps, and groups of ranks.

An algorithm is a generator function of a :class:`Group`. Seen from one rank, it
yields *steps*; a step is what that rank does at once: one transfer or a tuple of
them. All sends of a step carry the values from before the step, whatever the step
receives, and everything that one step sends to one peer is one message. Receives
of one step that reduce into the same chunk must be equal from every peer; they are
combined in the order of the ranks, the rank's own value included, so that the result
is the same to the last bit wherever the same contributions meet.

>>> def allgather(group):
...     for step in range(group.size - 1):
...         yield (
...             send(group.right, group.chunk(group.rank - step)),
...             recv(group.left, group.chunk(group.rank - step - 1)),
...         )
>>> list(allgather(Group.flat(rank=0, size=2)))[0][1]
recv from 1: chunk 1/2
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import gcd, lcm
from typing import NamedTuple, TypeAlias

from collalgo.errors import ScheduleError


class Chunk(NamedTuple):
    """The piece from ``start / parts`` to ``stop / parts`` of the buffer."""

    start: int
    stop: int
    parts: int

    def piece(self, index: int, pieces: int) -> "Chunk":
        """Piece number ``index`` when this chunk is cut into equal ``pieces``."""
        width = self.stop - self.start
        start = self.start * pieces + width * index
        return Chunk(start, start + width, self.parts * pieces)

    def __str__(self) -> str:
        last = "" if self.stop == self.start + 1 else f"-{self.stop - 1}"
        return f"{self.start}{last}/{self.parts}"


Chunks: TypeAlias = tuple[Chunk, ...]


class Kind(enum.Enum):
    """What a transfer does with its chunks."""

    SEND = "send"
    RECV = "recv"
    RECV_REDUCE = "recv_reduce"


class Transfer(NamedTuple):
    """One verb of one rank: chunks to or from a peer (a rank of the whole world)."""

    kind: Kind
    peer: int
    chunks: Chunks
    lane: int = 0

    def __repr__(self) -> str:
        way = "to" if self.kind is Kind.SEND else "from"
        what = ", ".join(map(str, self.chunks)) or "token"
        noun = "chunk " if len(self.chunks) == 1 else "chunks " if self.chunks else ""
        lane = f" on lane {self.lane}" if self.lane else ""
        return f"{self.kind.value} {way} {self.peer}: {noun}{what}{lane}"


Step: TypeAlias = tuple[Transfer, ...]
Steps: TypeAlias = Iterator[Transfer | Step]
ScheduleFunction: TypeAlias = Callable[..., Steps]


def send(peer: int, chunks: Chunks = ()) -> Transfer:
    """Send ``chunks`` as they were before this step; without chunks, a token."""
    return Transfer(Kind.SEND, peer, chunks)


def recv(peer: int, chunks: Chunks = ()) -> Transfer:
    """Receive ``chunks`` in place of what is there; without chunks, a token."""
    return Transfer(Kind.RECV, peer, chunks)


def recv_reduce(peer: int, chunks: Chunks) -> Transfer:
    """Receive ``chunks`` and combine them with what is there."""
    return Transfer(Kind.RECV_REDUCE, peer, chunks)


class Group:
    """Some ranks in an order of their own, seen from one of them.

    Positions and chunk numbers wrap around, so no ``% size`` appears in an
    algorithm. Chunk ``i`` belongs to position ``i``.

    Parameters
    ----------
    rank
        My position, from 0.
    ranks
        The rank in the whole world of each position.
    parts
        The chunks of each position.
    """

    __slots__ = ("parts", "rank", "ranks", "size")

    def __init__(self, rank: int, ranks: Sequence[int], parts: Sequence[Chunks]):
        self.rank = rank
        self.ranks = ranks
        self.parts = parts
        self.size = len(ranks)

    @classmethod
    def flat(cls, rank: int, size: int) -> "Group":
        """All ranks of a world in their order, the buffer cut into one chunk each."""
        parts = [(Chunk(i, i + 1, size),) for i in range(size)]
        return cls(rank, range(size), parts)

    def peer(self, position: int) -> int:
        """The rank in the whole world at ``position``."""
        return self.ranks[position % self.size]

    @property
    def right(self) -> int:
        return self.peer(self.rank + 1)

    @property
    def left(self) -> int:
        return self.peer(self.rank - 1)

    def chunk(self, position: int) -> Chunks:
        """The chunk that belongs to ``position``."""
        return self.parts[position % self.size]

    def chunks(self, start: int, stop: int) -> Chunks:
        """The chunks of the positions from ``start`` up to but not ``stop``."""
        return tuple(c for i in range(start, stop) for c in self.chunk(i))

    @property
    def whole(self) -> Chunks:
        """All that the group shares."""
        return self.chunks(0, self.size)

    def reordered(self, positions: Sequence[int]) -> "Group":
        """The same group with ``positions[i]`` at position i; chunks keep owners."""
        return Group(
            list(positions).index(self.rank),
            [self.peer(i) for i in positions],
            [self.chunk(i) for i in positions],
        )

    def rotated(self, root: int) -> "Group":
        """The same group counted from ``root`` on."""
        return self.reordered([(root + i) % self.size for i in range(self.size)])

    def subset(self, positions: Sequence[int]) -> "Group | None":
        """Share everything anew among ``positions``; None for a rank not in them."""
        if self.rank not in positions:
            return None
        return Group(
            list(positions).index(self.rank),
            [self.peer(i) for i in positions],
            divide(self.whole, len(positions)),
        )

    def merged(self, teams: Sequence[Sequence[int]]) -> "Group | None":
        """Let the first of each team act for it and own its chunks; None for others."""
        leaders = [team[0] for team in teams]
        if self.rank not in leaders:
            return None
        return Group(
            leaders.index(self.rank),
            [self.peer(i) for i in leaders],
            [tuple(c for i in team for c in self.chunk(i)) for team in teams],
        )

    def grid(self, rows: int, cols: int) -> "tuple[Group, Group]":
        """My row and my column when the positions fill a grid row by row.

        The row shares everything; the column shares the chunk that I have in my row.
        """
        if rows * cols != self.size:
            raise ScheduleError(
                f"a grid of {rows} x {cols} needs {rows * cols} ranks but the group "
                f"has {self.size}; choose rows and columns whose product is the size"
            )
        my_row, my_col = divmod(self.rank, cols)
        row_parts = divide(self.whole, cols)
        row = [self.peer(my_row * cols + col) for col in range(cols)]
        column = [self.peer(row * cols + my_col) for row in range(rows)]
        return (
            Group(my_col, row, row_parts),
            Group(my_row, column, divide(row_parts[my_col], rows)),
        )


def divide(chunks: Chunks, pieces: int) -> list[Chunks]:
    """Cut ``chunks`` into equal pieces, each with its share of every chunk."""
    chunks = merge(chunks)
    return [tuple(c.piece(i, pieces) for c in chunks) for i in range(pieces)]


def merge(chunks: Iterable[Chunk]) -> Chunks:
    """Sort chunks by their place in the buffer, join those that touch, cancel."""
    chunks = list(chunks)
    grid = lcm(*(chunk.parts for chunk in chunks))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(
        (c.start * grid // c.parts, c.stop * grid // c.parts) for c in chunks
    ):
        if joined and joined[-1][1] == start:
            joined[-1] = joined[-1][0], stop
        else:
            joined.append((start, stop))
    return tuple(cancelled(start, stop, grid) for start, stop in joined)


def cancelled(start: int, stop: int, parts: int) -> Chunk:
    """The chunk in lowest terms, so that equal pieces are equal chunks."""
    factor = gcd(start, stop, parts)
    return Chunk(start // factor, stop // factor, parts // factor)


def together(*schedules: Steps) -> Iterator[Step]:
    """Run schedules side by side, step by step, each on a lane of its own.

    Messages of different lanes never meet, even between the same two ranks.
    """
    lanes = len(schedules)
    for steps in zip_longest(*schedules, fillvalue=()):
        yield tuple(
            transfer._replace(lane=transfer.lane * lanes + lane)
            for lane, step in enumerate(steps)
            for transfer in as_step(step)
        )


def as_step(step: object) -> Step:
    """Give the one form of a step: a tuple of transfers."""
    if isinstance(step, Transfer):
        return (step,)
    if isinstance(step, tuple) and all(isinstance(t, Transfer) for t in step):
        return tuple(step)
    raise ScheduleError(
        f"an algorithm yielded {step!r}; yield send(...), recv(...), "
        "recv_reduce(...) or a tuple of them"
    )


def trace(
    algorithm: ScheduleFunction,
    rank: int,
    size: int,
    root: int = 0,
    **parameters: object,
) -> list[Step]:
    """All steps that ``algorithm`` asks of one rank; the root is at position 0."""
    group = Group.flat(rank, size)
    if root:
        group = group.rotated(root)
    return [as_step(step) for step in algorithm(group, **parameters)]


def doublings(size: int) -> list[int]:
    """The distances 1, 2, 4, ... below ``size``."""
    return [1 << i for i in range((size - 1).bit_length())]
