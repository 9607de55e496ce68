"""Groups: ranks in an order of their own, with the chunks of each."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from math import prod
from typing import TypeVar

from collalgo.errors import ScheduleError
from collalgo.schedule.chunk import Chunk, Chunks, divide
from collalgo.schedule.group_layout import GroupLayout, flat

T = TypeVar("T")


class Group:
    """An ordered set of ranks, seen from one of them.

    ``rank``, ``root`` and the numbers of chunks are positions; ``send`` and ``recv``
    take ranks of the whole world. ``peer(position)`` is the rank at a position;
    ``left`` and ``right`` are ranks already. Positions and chunk numbers wrap around,
    so no ``% size`` appears in an algorithm. Chunk ``i`` belongs to position ``i``.

    Attributes
    ----------
    rank : int
        My position, from 0.
    size : int
        The number of positions.
    root : int
        The position of the root of a rooted collective: always 0, as the group is
        counted from it.
    right, left : int
        The ranks (not the positions) after me and before me.
    """

    root = 0

    __slots__ = ("_layout", "left", "rank", "right", "size")

    def __init__(self, rank: int, layout: GroupLayout):
        self.rank = rank
        self.size = layout.size
        self._layout = layout
        self.right, self.left = self.peer(rank + 1), self.peer(rank - 1)

    @classmethod
    def flat(cls, rank: int, size: int) -> "Group":
        """All ranks of a world in their order, the buffer cut into one chunk each."""
        return cls(rank, flat(size))

    def peer(self, position: int) -> int:
        """The rank at ``position``, to pass to send and recv."""
        try:
            return self._layout.ranks[position % self.size]
        except (TypeError, LookupError):
            raise _no_position("peer", position) from None

    def position(self, rank: int) -> int:
        """The position of a rank of the whole world."""
        return self._layout.positions[rank]

    @property
    def me(self) -> int:
        """My rank in the whole world, to move something into a spare buffer."""
        return self.peer(self.rank)

    def chunk(self, position: int) -> Chunks:
        """The chunk that belongs to ``position``."""
        try:
            return self._layout.parts[position % self.size]
        except (TypeError, LookupError):
            raise _no_position("chunk", position) from None

    def chunks(self, start: int, stop: int) -> Chunks:
        """The chunks of the positions from ``start`` up to but not ``stop``."""
        return self._layout.chunks(start, stop)

    def chunks_of(self, positions: Iterable[int]) -> Chunks:
        """The chunks of any positions."""
        return self._layout.chunks_of(tuple(sorted(i % self.size for i in positions)))

    @property
    def whole(self) -> Chunks:
        """All chunks of the group."""
        return self._layout.whole

    def block(self, source: int, target: int) -> Chunk:
        """The block of an alltoall from position ``source`` to position ``target``."""
        ranks, size = self._layout.ranks, self.size
        return self._layout.block(ranks[source % size] * size + ranks[target % size])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """A value that is the same for all members, made once for every key."""
        return self._layout.once(key, make)

    def seen_from(self, position: int) -> "Group":
        """The same group, seen from another member."""
        return Group(position, self._layout)

    def reordered(self, positions: Sequence[int]) -> "Group":
        """The same group with ``positions[i]`` at position i; chunks keep owners."""
        order = tuple(positions)
        layout = self._layout

        def make() -> GroupLayout:
            return GroupLayout(
                [layout.ranks[i] for i in order],
                [layout.parts[i] for i in order],
                layout.block_piece,
            )

        view = layout.once(order, make)
        return Group(view.positions[self.me], view)

    def rotated(self, root: int) -> "Group":
        """The same group counted from ``root`` on."""
        return self.reordered((*range(root, self.size), *range(root)))

    @property
    def reversed(self) -> "Group":
        """The same group counted backwards from position 0."""
        return self.reordered((0, *range(self.size - 1, 0, -1)))

    @property
    def natural(self) -> "Group":
        """The same group in the order of the ranks of the whole world."""
        return self.reordered(sorted(range(self.size), key=self.peer))

    @property
    def tokens(self) -> "Group":
        """The same group without chunks: all its messages are tokens."""
        layout = self._layout
        empty: list[Chunks] = [()] * self.size
        view = layout.once("tokens", lambda: GroupLayout(layout.ranks, empty))
        return Group(self.rank, view)

    def subset(self, positions: Sequence[int]) -> "Group | None":
        """The group of ``positions``, sharing all chunks; None for other ranks."""
        members = tuple(positions)
        if self.rank not in members:
            return None
        layout = self._layout
        view = layout.once(
            ("subset", members), lambda: layout.reassigned(members, layout.whole)
        )
        return Group(members.index(self.rank), view)

    def merged(self, teams: Iterable[Sequence[int]]) -> "Group | None":
        """The group of the first ranks of teams, with their chunks; None for others."""
        teams = tuple(map(tuple, teams))
        leaders = [team[0] for team in teams]
        if self.rank not in leaders:
            return None

        def make() -> GroupLayout:
            return GroupLayout(
                [self.peer(i) for i in leaders], [self.chunks_of(t) for t in teams]
            )

        return Group(leaders.index(self.rank), self._layout.once(teams, make))

    def sharing(self, chunks: Chunks) -> "Group":
        """The same group, sharing ``chunks``."""
        layout = self._layout
        view = layout.once(chunks, lambda: layout.reassigned(range(self.size), chunks))
        return Group(self.rank, view)

    def shares(self, count: int) -> "list[Group]":
        """The same group ``count`` times, each with one part of every chunk."""
        parts = self.once(("shares", count), lambda: divide(self.whole, count))
        return [self.sharing(part) for part in parts]

    def segments(self, count: int) -> "list[Group]":
        """The same group ``count`` times, each with a segment of every chunk."""
        layout = self._layout
        first, pieces = layout.block_piece

        def make(index: int) -> GroupLayout:
            parts = [tuple(c.piece(index, count) for c in p) for p in layout.parts]
            return GroupLayout(
                layout.ranks, parts, (first * count + index, pieces * count)
            )

        return [
            Group(self.rank, layout.once(("segment", i, count), partial(make, i)))
            for i in range(count)
        ]

    def lines(self, dims: Sequence[int], owned: bool = False) -> "list[Group]":
        """My lines through the positions as a grid: one for each dimension.

        Positions run along the first dimension first. The first line shares
        all chunks, each further one the chunk that I have in the line before. Members
        share it evenly or, if ``owned``, each has the chunks of all positions on its
        further lines.
        """
        self.check_grid(dims)
        lines: list[Group] = []
        shared, stride = self.whole, 1
        for dim in dims:
            mine, before = self.rank // stride % dim, self.rank % stride
            first = self.rank - mine * stride
            ranks = [self.peer(first + i * stride) for i in range(dim)]
            starts = range(before, before + dim * stride, stride)
            parts = (
                [self.chunks_of(range(i, self.size, dim * stride)) for i in starts]
                if owned
                else divide(shared, dim)
            )
            lines.append(Group(mine, GroupLayout(ranks, parts)))
            shared, stride = lines[-1].chunk(mine), stride * dim
        return lines

    def axis(self, dims: Sequence[int], number: int) -> "Group":
        """My line along one dimension of a grid, sharing all chunks."""
        self.check_grid(dims)
        stride, dim = prod(dims[:number]), dims[number]
        first = self.rank - self.rank // stride % dim * stride
        line = self.subset(range(first, first + dim * stride, stride))
        assert line is not None
        return line

    def check_grid(self, dims: Sequence[int]) -> None:
        """Refuse dimensions whose product is not the size."""
        if prod(dims) != self.size or min(dims, default=1) < 1:
            shape = " x ".join(map(str, dims))
            raise ScheduleError(
                f"a grid of {shape} has {prod(dims)} places but the group has "
                f"{self.size} ranks; choose dimensions whose product is the size"
            )

    def grid(self, rows: int, cols: int) -> "tuple[Group, Group]":
        """My row and my column, with the positions filling a grid row by row.

        The row shares all chunks; the column shares the chunk that I have in my row.
        """
        row, column = self.lines((cols, rows))
        return row, column


def _no_position(method: str, position: object) -> ScheduleError:
    return ScheduleError(f"group.{method}({position!r}): pass a position, an integer")
