"""Integers that ranks exchange to make communicators: never pickled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import object_exchange
from collalgo.integrations.as_mpi4py.memory import Bytes

INT64 = np.dtype("<i8")


def packed(values: Sequence[int]) -> bytes:
    """The bytes of integers of 64 bits."""
    return np.array(values, INT64).tobytes()


def unpacked(data: Bytes) -> list[int]:
    """The integers of some bytes."""
    found: list[int] = np.frombuffer(data.tobytes(), INT64).tolist()
    return found


def allgather(engine: Any, values: Sequence[int]) -> list[list[int]]:
    """The integers of all ranks, at every rank."""
    return [
        unpacked(each) for each in object_exchange.allgather(engine, packed(values))
    ]


def broadcast(engine: Any, values: Sequence[int] | None, root: int) -> list[int]:
    """The integers of the root."""
    data = None if values is None else packed(values)
    return unpacked(object_exchange.broadcast(engine, data, root))
