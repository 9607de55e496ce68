"""What a device must be able to do for schedules to run on it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

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
    writeable : bool
        Whether it may be written, which arrays of JAX may not.
    """

    array: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    writeable: bool = True


class Mark(Protocol):
    """A place on a stream."""

    @property
    def done(self) -> bool:
        """Whether the stream has come so far."""

    def synchronize(self) -> None:
        """Wait until the stream has come so far."""


class Table(NamedTuple):
    """A program as one kernel runs it, in the memory of the device.

    Attributes
    ----------
    dtype, op : str
        Of the call; the op is that by which means are summed.
    rows, places : Memory
        What the kernel reads; see ``interpret.cuh``.
    length : int
        The rows.
    arrived : Memory
        What its blocks count each other by.
    """

    dtype: str
    op: str
    rows: Memory
    places: Memory
    length: int
    arrived: Memory


#: An address, a number of bytes, and the rank that they go to or come from.
Bytes: TypeAlias = tuple[int, int, int]


class Network(Protocol):
    """What carries messages between devices that do not reach each other's memory."""

    def exchange(
        self, stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        """Put a group of messages on a stream."""

    def close(self) -> None:
        """Leave it, whatever is still on streams."""


class Runtime(Protocol):
    """A device, and the stream on which calls are made in their order.

    But for those that move arrays to the host and from it, nothing here waits for the
    stream.

    Attributes
    ----------
    process : int
        The same for all ranks whose memory needs no mapping.
    device : int
        Which of the devices of the process this is.
    stream : object
        What the stream is, by which it can be told from others.
    """

    process: int
    device: int

    @property
    def bus_id(self) -> str:
        """Where on the bus the device is."""

    @property
    def in_turns(self) -> bool:
        """Whether kernels of several processes run on the device in turns."""

    @property
    def bandwidth(self) -> float:
        """GB/s of its memory."""

    @property
    def stream(self) -> object:
        """What the stream is, by which it can be told from others."""

    @property
    def capturing(self) -> bool:
        """Whether what goes on the stream becomes a graph, to be run later."""

    def current(self) -> AbstractContextManager[Any]:
        """Let this device be the current one of the thread, as what follows needs."""

    def memory(self, buf: Any, caller: str) -> Memory:
        """The memory of an array on a device."""

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Memory:
        """A new array."""

    def upload(self, values: NDArray[np.uint8]) -> Memory:
        """New bytes of these values, at once and for all streams."""

    def part(
        self, whole: Any, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        """An array on part of the memory of another."""

    def allocation(self, pointer: int) -> int | None:
        """The number of the allocation of this memory, which no other ever has."""

    def export(self, pointer: int) -> Export | None:
        """How another process can map this memory; None if none can."""

    def reach(self, device: int) -> None:
        """Let memory of a device of this process be read here; OSError if it cannot."""

    def open(self, handle: bytes) -> int:
        """Map memory of another process, until it is closed: where it is.

        Raises
        ------
        OSError
            If this device cannot reach it.
        """

    def close(self, pointer: int) -> None:
        """Unmap memory of another process."""

    def follow(self, buf: Any) -> None:
        """Go on with the stream on which the user of an array works."""

    @property
    def network(self) -> str | None:
        """What carries messages between devices, with its version; None if nothing."""

    def identity(self) -> bytes:
        """What a new network is to be known by."""

    def join(self, identity: bytes, rank: int, size: int) -> Network:
        """Come up as a rank of a network, when all others do so too.

        Raises
        ------
        OSError
            If it cannot come up.
        """

    def load(self, dtype: str, op: str, *, whole: bool) -> None:
        """Load the kernels that reduce, or the one that runs whole programs.

        To load one may wait for all streams, and keep other threads from putting
        anything on theirs: no stream may wait for a rank that has still to be served.
        """

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes."""

    def reduce(
        self, dtype: str, op: str, target: int, sources: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        """Reduce elements in their order by a loaded kernel; divide unless by 0."""

    def interpret(
        self, table: Table, buffers: tuple[int, ...], nbytes: int, ranks: int
    ) -> None:
        """Run a whole program, for a call of so many bytes, by a loaded kernel.

        Those of so many ranks, which wait for each other, must fit on the device.
        """

    def write(self, flag: int, number: int) -> None:
        """Set a flag of 32 bits when all that comes before is done."""

    def wait(self, flag: int, number: int) -> None:
        """Let what follows wait until a flag has at least a number."""

    def let_go(self, flags: Memory) -> None:
        """Set flags to what ends all waits for them, whatever the stream waits for."""

    def mark(self) -> Mark:
        """The place to which the stream has been filled."""

    def after(self, mark: Mark) -> None:
        """Let what follows wait until another stream has come to a place."""

    def hold(self, stream: Any, mark: Mark) -> None:
        """Let a stream of the user wait; the current one if it is None."""

    def as_now(self) -> "Runtime":
        """The same device and stream, whatever other arrays are followed later."""

    def aside(self) -> "Runtime":
        """The same device, with a stream of its own that waits for no other."""

    def to_host(self, pointer: int, target: NDArray[np.uint8]) -> None:
        """Bring bytes to the host, and wait until they are there."""

    def to_device(self, pointer: int, source: NDArray[np.uint8]) -> None:
        """Bring bytes to the device, and wait until the host's are no longer needed."""
