"""What a device must be able to do for schedules to run on it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Export(NamedTuple):
    """Memory as another process can map it: what to map, and the place within it."""

    handle: bytes
    offset: int


class Memory(NamedTuple):
    """An array in the memory of a device.

    Attributes
    ----------
    array : object
        What its user knows it as, which keeps the memory.
    pointer : int
        Where its elements lie, one behind the other.
    shape, dtype : tuple of int, dtype
        As of an array of NumPy.
    """

    array: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Runtime(Protocol):
    """A device, and the stream on which calls are made in their order.

    But for those that move arrays to the host and from it, nothing here waits for the
    stream.

    Attributes
    ----------
    process : int
        The same for all ranks whose memory needs no mapping.
    """

    process: int

    def memory(self, buf: Any, caller: str) -> Memory:
        """The memory of an array on a device."""

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Memory:
        """A new array."""

    def zeros(self, nbytes: int) -> Memory:
        """New bytes that are zero, at once and for all streams."""

    def part(
        self, whole: Any, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        """An array on part of the memory of another."""

    def export(self, pointer: int) -> Export | None:
        """How another process can map this memory; None if none can."""

    def open(self, handle: bytes) -> int:
        """Map memory of another process, until it is closed: where it is."""

    def close(self, pointer: int) -> None:
        """Unmap memory of another process."""

    def follow(self, buf: Any) -> None:
        """Go on with the stream on which the user of an array works."""

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes."""

    def reduce(
        self, dtype: str, op: str, target: int, sources: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        """Reduce elements of arrays in their order, and divide unless by 0."""

    def write(self, flag: int, number: int) -> None:
        """Set a flag of 32 bits when all that comes before is done."""

    def wait(self, flag: int, number: int) -> None:
        """Let what follows wait until a flag has at least a number."""

    def to_host(self, pointer: int, target: NDArray[np.uint8]) -> None:
        """Bring bytes to the host, and wait until they are there."""

    def to_device(self, pointer: int, source: NDArray[np.uint8]) -> None:
        """Bring bytes to the device, and wait until the host's are no longer needed."""
