"""Chunks: pieces of the buffer, named by fractions of it, whatever its length."""

from collections.abc import Iterable, Sequence
from math import gcd, lcm
from typing import NamedTuple, TypeAlias

from collalgo.errors import ScheduleError

#: Makes a chunk of its four fields in less time than its constructor.
_new = tuple.__new__


class Chunk(NamedTuple):
    """The piece from ``start / parts`` to ``stop / parts`` of the buffer.

    ``spare`` is 0 for the buffer of the call, and k for the k-th spare buffer of the
    same length that an algorithm asks for by naming it.
    """

    start: int
    stop: int
    parts: int
    spare: int = 0

    def piece(self, index: int, pieces: int) -> "Chunk":
        """Piece number ``index`` when this chunk is cut into equal ``pieces``."""
        width = self.stop - self.start
        start = self.start * pieces + width * index
        return _new(Chunk, (start, start + width, self.parts * pieces, self.spare))

    def __str__(self) -> str:  # as pictures have it; errors take in_words
        last = "" if self.stop == self.start + 1 else f"-{self.stop - 1}"
        where = f" of spare {self.spare}" if self.spare else ""
        return f"{self.start}{last}/{self.parts}{where}"


Chunks: TypeAlias = tuple[Chunk, ...]


def in_words(chunks: Iterable[Chunk]) -> str:
    """Chunks as errors name them.

    >>> in_words([Chunk(3, 4, 4)]), in_words([Chunk(0, 1, 4), Chunk(2, 4, 4)])
    ('chunk 3 of 4', 'chunks 0, 2 to 3 of 4')
    """
    places: dict[str, list[Chunk]] = {}
    for one in chunks:
        where = f" of spare {one.spare}" if one.spare else ""
        places.setdefault(f"{one.parts}{where}", []).append(one)
    return ", ".join(_numbers(each, place) for place, each in places.items())


def _numbers(chunks: Sequence[Chunk], place: str) -> str:
    """The numbers of chunks of one buffer in equal parts."""
    ends = [(one.start, one.stop - 1) for one in chunks]
    ranges = [str(i) if i == last else f"{i} to {last}" for i, last in ends]
    several = len(chunks) > 1 or ends[0][0] != ends[0][1]
    return f"chunk{'s' * several} {', '.join(ranges)} of {place}"


def as_chunks(given: object) -> Chunks:
    """Chunks as one tuple; nested lists and tuples of chunks are flattened.

    Raises
    ------
    ScheduleError
        If it is or holds something else.
    """
    if isinstance(given, Chunk):
        return (given,)
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ScheduleError(
            f"{given!r} is not a chunk; pass group.chunk(i), or of several positions "
            "group.chunks(start, stop) or group.chunks_of(positions)"
        )
    return tuple(chunk for each in given for chunk in as_chunks(each))


def spare(chunks: Chunks, number: int = 1) -> Chunks:
    """The same chunks of a spare buffer, which the library allocates."""
    return tuple(chunk._replace(spare=number) for chunk in chunks)


def divide(chunks: Chunks, pieces: int) -> list[Chunks]:
    """Cut ``chunks`` into equal pieces, each with its share of every chunk."""
    chunks = merge(chunks)
    return [tuple([c.piece(i, pieces) for c in chunks]) for i in range(pieces)]


def merge(chunks: Iterable[Chunk]) -> Chunks:
    """Sort chunks by their place in the buffer, join those that touch, cancel.

    Equal pieces of the buffer give equal chunks, whatever they were called before.
    """
    chunks = tuple(chunks)
    if len(chunks) == 1:
        ((start, stop, parts, number),) = chunks
        factor = gcd(start, stop, parts)
        return (Chunk(start // factor, stop // factor, parts // factor, number),)
    grid = lcm(*{chunk.parts for chunk in chunks})
    pieces = sorted(
        (number, start * (grid // parts), stop * (grid // parts))
        for start, stop, parts, number in chunks
    )
    runs = _joined(pieces)
    factor = gcd(grid, *(bound for run in runs for bound in run[1:]))
    return tuple(
        Chunk(start // factor, stop // factor, grid // factor, number)
        for number, start, stop in runs
    )


def _joined(pieces: Iterable[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Join sorted pieces (spare, start, stop) that touch."""
    runs: list[tuple[int, int, int]] = []
    for piece in pieces:
        if runs and runs[-1][::2] == piece[:2]:
            runs[-1] = *runs[-1][:2], piece[2]
        else:
            runs.append(piece)
    return runs
