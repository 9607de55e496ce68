"""The bytes that each rank sends to each other, as a matrix: those of an alltoallv."""

from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from collalgo.base.input_files import read_text
from collalgo.errors import TopologyError
from collalgo.schedule.transfers import Ints, Reals

#: The most ranks of a matrix, the most bytes in total, and the most bytes of a file.
MOST_RANKS, MOST_BYTES, LARGEST = 1024, 1 << 50, 1 << 25

#: The most characters of an integer that an array can hold.
DIGITS = 18


class ByteMatrix:
    """The bytes from rank i to rank j in row i and column j.

    What a rank has for itself moves over no link: the diagonal is taken as 0.

    Parameters
    ----------
    given
        The numbers, as a square table.

    Raises
    ------
    TopologyError
        If it is not square, or an entry is negative, no integer or too large.

    Examples
    --------
    >>> matrix = ByteMatrix([[9, 4], [2, 0]])
    >>> matrix.total, matrix.nbytes.tolist()
    (6, [[0, 4], [2, 0]])
    """

    def __init__(self, given: Any):
        self.nbytes: Ints = _checked(given)
        np.fill_diagonal(self.nbytes, 0)
        self.nbytes.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteMatrix) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @classmethod
    def read(cls, path: str | Path) -> "ByteMatrix":
        """Read a file of comma-separated values, a line for each sender.

        Raises
        ------
        TopologyError
            If it cannot be read, or is not a matrix.
        """
        try:
            lines = read_text(path, LARGEST).split("\n")
            return cls(_numbers([line.split(",") for line in lines if line.strip()]))
        except (ValueError, TopologyError) as error:
            raise TopologyError(f"{path}: {error}") from None

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.nbytes)

    @cached_property
    def total(self) -> int:
        """The bytes of all pairs of ranks."""
        return int(self.nbytes.sum())

    @cached_property
    def is_full(self) -> bool:
        """Whether each rank sends something to each other."""
        return int(np.count_nonzero(self.nbytes)) == self.size * (self.size - 1)

    @cached_property
    def digest(self) -> str:
        """The identity of the matrix."""
        return blake2b(self.nbytes.tobytes(), digest_size=16).hexdigest()

    @property
    def part(self) -> Reals:
        """The part of all bytes of each pair of ranks, row after row.

        Without any bytes all pairs have the same part.
        """
        nbytes = self.nbytes if self.total else np.ones_like(self.nbytes)
        found: Reals = nbytes.ravel() / nbytes.sum()
        return found

    def reordered(self, order: Sequence[int]) -> "ByteMatrix":
        """The matrix of the same ranks in another order, by their numbers in this.

        Examples
        --------
        >>> ByteMatrix([[0, 4], [2, 0]]).reordered([1, 0]).nbytes.tolist()
        [[0, 2], [4, 0]]
        """
        return ByteMatrix(self.nbytes[np.ix_(order, order)])

    def check_size(self, size: int) -> None:
        """Refuse another number of ranks.

        Raises
        ------
        TopologyError
            If the matrix is for more or fewer.
        """
        if self.size != size:
            raise TopologyError(
                f"alltoallv: the matrix is for {self.size} ranks but there are {size}; "
                "pass a row and a column for each rank"
            )


def _numbers(rows: list[list[str]]) -> list[list[int]]:
    """The integers of a file."""
    found = []
    for line, row in enumerate(rows, 1):
        if len(row) != len(rows):
            raise ValueError(
                f"line {line} has {len(row)} numbers but there are {len(rows)} lines; "
                "write a line for each sender, with a number for each receiver"
            )
        found.append([_number(word, line, place) for place, word in enumerate(row, 1)])
    return found


def _number(word: str, line: int, place: int) -> int:
    """An integer of a file."""
    given, at = word.strip(), f"line {line}, number {place}:"
    if given.lstrip("+-").isdecimal() and len(given) > DIGITS:
        raise ValueError(
            f"{at} {given:.40} has too many digits; write bytes of at most {MOST_BYTES}"
        )
    try:
        return int(given)
    except ValueError:
        raise ValueError(
            f"{at} {given!r:.40} is not a number of bytes; write an integer"
        ) from None


def _checked(given: Any) -> Ints:
    """A table as an array of its own.

    Raises
    ------
    TopologyError
        As of :class:`ByteMatrix`.
    """
    try:
        table = np.array(given)
    except ValueError:
        table = np.zeros(0)
    _check_shape(table)
    _check_range(table)
    return table.astype(np.int64)


def _check_shape(table: Any) -> None:
    """Refuse what is not a square table of integers."""
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not len(table) >= 1:
        raise TopologyError(
            f"alltoallv: a matrix of shape {table.shape} is not square; pass the bytes "
            "from each rank to each as a table of size x size"
        )
    if len(table) > MOST_RANKS:
        raise TopologyError(
            f"alltoallv: a matrix of {len(table)} ranks exceeds the {MOST_RANKS} that "
            "can be priced; take a part of the machine"
        )
    if table.dtype.kind not in "iu":
        raise TopologyError(
            f"alltoallv: a matrix of dtype {table.dtype} has no numbers of bytes; pass "
            "integers"
        )


def _check_range(table: Any) -> None:
    """Refuse negative entries, and more bytes than can be counted."""
    if (table < 0).any():
        source, target = map(int, np.argwhere(table < 0)[0])
        raise TopologyError(
            f"alltoallv: {table[source, target]} bytes from rank {source} to rank "
            f"{target} are negative; pass 0 or more"
        )
    most = float(table.astype(float).sum())
    if most > MOST_BYTES:
        raise TopologyError(
            f"alltoallv: {most:.4g} bytes in total exceed {MOST_BYTES}; pass fewer"
        )
