"""The state that all members of a group share: their ranks and chunks."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, TypeVar

from collalgo.schedule.chunk import Chunk, Chunks, divide, merge

T = TypeVar("T")


class GroupLayout:
    """The ranks and chunks of a group, made once for all its members.

    Parameters
    ----------
    ranks
        The rank in the whole world of each position.
    parts
        The chunks of each position.
    block_piece
        The index of the piece of every block of an alltoall that this layout takes,
        and the number of pieces.
    """

    def __init__(
        self,
        ranks: Sequence[int],
        parts: Sequence[Chunks],
        block_piece: tuple[int, int] = (0, 1),
    ):
        self.ranks = ranks
        self.parts = parts
        self.block_piece = block_piece
        self.size = len(ranks)
        self._made: dict[Hashable, Any] = {}
        self._runs: dict[tuple[int, int], Chunks] = {}
        self._sets: dict[tuple[int, ...], Chunks] = {}
        self._blocks: dict[int, Chunk] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of ``make``, which runs once for every ``key``."""
        if key not in self._made:
            self._made[key] = make()
        made: T = self._made[key]
        return made

    @cached_property
    def positions(self) -> Mapping[int, int] | Sequence[int]:
        """The position of each rank."""
        return {rank: position for position, rank in enumerate(self.ranks)}

    @cached_property
    def whole(self) -> Chunks:
        everything = self.chunks(0, self.size)
        return everything if len(everything) == 1 else merge(everything)

    @cached_property
    def _reach(self) -> list[int] | None:
        """For each position, the end of the run of adjacent chunks from there on.

        None if a position has no chunk or several.
        """
        if any(len(part) != 1 for part in self.parts):
            return None
        reach = [self.size] * self.size
        for i in range(self.size - 2, -1, -1):
            (this,), (following,) = self.parts[i], self.parts[i + 1]
            touches = this[1:] == (following.start, *following[2:])
            reach[i] = reach[i + 1] if touches else i + 1
        return reach

    def chunks(self, start: int, stop: int) -> Chunks:
        key = start, stop
        if key in self._runs:
            return self._runs[key]
        found: list[Chunk] = []
        while start < stop:
            first = start % self.size
            if self._reach is None:
                found += self.parts[first]
                start += 1
                continue
            count = min(stop - start, self._reach[first] - first)
            (begin,), (end,) = self.parts[first], self.parts[first + count - 1]
            found.append(begin._replace(stop=end.stop))
            start += count
        return self._runs.setdefault(key, tuple(found))

    def block(self, number: int) -> Chunk:
        """The piece of this layout of one of the size * size blocks of an alltoall."""
        block = self._blocks.get(number)
        if block is None:
            whole = Chunk(number, number + 1, self.size * self.size)
            block = self._blocks[number] = whole.piece(*self.block_piece)
        return block

    def chunks_of(self, positions: tuple[int, ...]) -> Chunks:
        """The chunks of positions in ascending order."""
        if positions not in self._sets:
            chunks = chain.from_iterable(self.parts[i] for i in positions)
            self._sets[positions] = tuple(chunks)
        return self._sets[positions]

    def reassigned(self, positions: Sequence[int], chunks: Chunks) -> "GroupLayout":
        """Share ``chunks`` among ``positions``, whatever their former owners."""
        ranks = [self.ranks[i] for i in positions]
        return GroupLayout(ranks, divide(chunks, len(positions)), self.block_piece)


class Equal(Sequence[Chunks]):
    """Equal chunks of the buffer, one for each position, made at their first use."""

    def __init__(self, count: int):
        self._count = count
        self._made: dict[int, Chunks] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index not in self._made:
            start = range(self._count)[index]
            self._made[index] = (Chunk(start, start + 1, self._count),)
        return self._made[index]


class Flat(GroupLayout):
    """All ranks of a world in their order, which may be a million."""

    def __init__(self, size: int):
        super().__init__(range(size), Equal(size))

    @cached_property
    def positions(self) -> Sequence[int]:
        return self.ranks

    @cached_property
    def _reach(self) -> list[int]:
        return [self.size] * self.size


@lru_cache(maxsize=8)
def flat(size: int) -> GroupLayout:
    """All ranks of a world in their order, the buffer cut into one chunk each."""
    return Flat(size)
