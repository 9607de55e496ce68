"""Texts of all processes, where an MPI gathers arrays of one length."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def gathered_texts(
    text: str,
    gather_length: Callable[[int], NDArray[np.int64]],
    gather: Callable[[NDArray[Any]], NDArray[Any]],
) -> list[str]:
    """The texts of all processes, by rank.

    Parameters
    ----------
    text
        The text of this process.
    gather_length
        Gathers the numbers of bytes of all texts.
    gather
        Joins arrays of one length of all processes.
    """
    mine = text.encode()
    lengths = gather_length(len(mine))
    longest = int(lengths.max())
    if not longest:
        return [""] * len(lengths)
    rows = gather(np.frombuffer(mine.ljust(longest, b"\0"), np.uint8))
    return [
        row[:length].tobytes().decode()
        for row, length in zip(rows.reshape(-1, longest), lengths, strict=True)
    ]
