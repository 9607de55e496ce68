"""The interface of a device on which schedules run."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray


class Export(NamedTuple):
    """Exported memory: a handle that another process can map, and the offset in it."""

    handle: bytes
    offset: int


class Memory(NamedTuple):
    """An array in the memory of a device.

    Attributes
    ----------
    array : object
        The array of the user, which owns the memory.
    pointer : int
        The address of its contiguous elements.
    shape, dtype : tuple of int, dtype
        As of a NumPy array.
    writeable : bool
        Whether it may be written; arrays of JAX may not.
    """

    array: Any
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    writeable: bool = True


class Mark(Protocol):
    """A position on a stream."""

    @property
    def done(self) -> bool:
        """Whether the stream has reached it."""

    def synchronize(self) -> None:
        """Wait until the stream has reached it."""


class Table(NamedTuple):
    """A program for a single kernel, in the memory of the device.

    Attributes
    ----------
    dtype, op : str
        Of the call; for means, the op is the sum.
    rows, places : Memory
        The input of the kernel; see ``interpret.cuh``.
    length : int
        The rows.
    arrived : Memory
        The counters of its blocks.
    """

    dtype: str
    op: str
    rows: Memory
    places: Memory
    length: int
    arrived: Memory


#: An address, a number of bytes, and the peer.
Bytes: TypeAlias = tuple[int, int, int]


class Network(Protocol):
    """A network between devices without access to each other's memory."""

    def exchange(
        self, stream: object, sends: Sequence[Bytes], receives: Sequence[Bytes]
    ) -> None:
        """Put a group of messages on a stream."""

    def close(self) -> None:
        """Leave the network, even with operations left on streams."""


class Runtime(Protocol):
    """A device, and the stream on which calls run in order.

    But for those that move arrays to the host and from it, nothing here waits for the
    stream.

    Attributes
    ----------
    process : int
        The process, whose ranks need no mapping of their memory.
    device : int
        The number of the device in the process.
    stream : object
        The identity of the stream.
    """

    process: int
    device: int

    @property
    def bus_id(self) -> str:
        """The bus id of the device."""

    @property
    def in_turns(self) -> bool:
        """Whether kernels of several processes run on the device in turns."""

    @property
    def bandwidth(self) -> float:
        """The bandwidth of its memory in GB/s."""

    @property
    def stream(self) -> object:
        """The identity of the stream."""

    @property
    def capturing(self) -> bool:
        """Whether the stream is being captured into a graph."""

    def current(self) -> AbstractContextManager[Any]:
        """Make this device the current one of the thread."""

    def memory(self, buf: Any, caller: str) -> Memory:
        """The memory of an array on a device."""

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Memory:
        """A new array."""

    def upload(self, values: NDArray[np.uint8]) -> Memory:
        """New memory with these bytes, valid at once on all streams."""

    def part(
        self, whole: Any, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Any:
        """An array on part of the memory of another."""

    def allocation(self, pointer: int) -> int | None:
        """The unique number of the allocation of this memory."""

    def export(self, pointer: int) -> Export | None:
        """Export memory for other processes; None if that is impossible."""

    def reach(self, device: int) -> None:
        """Enable access to another device of this process; OSError if impossible."""

    def open(self, handle: bytes) -> int:
        """Map memory of another process, until it is closed; return its address.

        Raises
        ------
        OSError
            If this device cannot access it.
        """

    def close(self, pointer: int) -> None:
        """Unmap memory of another process."""

    def follow(self, buf: Any) -> None:
        """Use the stream on which the user of an array works."""

    @property
    def network(self) -> str | None:
        """The name and version of the network between devices; None without one."""

    def identity(self) -> bytes:
        """The identifier of a new network."""

    def join(self, identity: bytes, rank: int, size: int) -> Network:
        """Connect a rank of a network, together with all others.

        Raises
        ------
        OSError
            If it cannot connect.
        """

    def load(self, dtype: str, op: str, *, whole: bool) -> None:
        """Load the kernels that reduce, or the kernel that runs whole programs.

        To load one may wait for all streams, and keep other threads from putting
        anything on theirs: no stream may wait for a rank that has still to be served.
        """

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes."""

    def reduce(
        self, dtype: str, op: str, target: int, sources: Sequence[int], count: int,
        divisor: int,
    ) -> None:  # fmt: skip
        """Reduce elements in order by a loaded kernel; divide unless by 0."""

    def interpret(
        self, table: Table, buffers: tuple[int, ...], nbytes: int, ranks: int
    ) -> None:
        """Run a whole program by a loaded kernel, for a call of ``nbytes`` bytes.

        The kernels of all ``ranks`` wait for each other; all must fit on the device.
        """

    def write(self, flag: int, number: int) -> None:
        """Set a flag of 32 bits once all earlier work of the stream is done."""

    def wait(self, flag: int, number: int) -> None:
        """Make later work wait until a flag has at least a number."""

    def end_waits(self, flags: Memory) -> None:
        """Set flags to a value that ends all waits for them, outside the stream."""

    def mark(self) -> Mark:
        """The present end of the stream."""

    def after(self, mark: Mark) -> None:
        """Make later work wait until another stream has reached a position."""

    def hold(self, stream: Any, mark: Mark) -> None:
        """Make a stream of the user wait; None for the current one."""

    def as_now(self) -> "Runtime":
        """A copy of this runtime that keeps its stream."""

    def aside(self, *, high_priority: bool = False) -> "Runtime":
        """The same device with its own, independent stream."""

    def to_host(self, pointer: int, target: NDArray[np.uint8]) -> None:
        """Copy bytes to the host, and wait until they have arrived."""

    def to_device(self, pointer: int, source: NDArray[np.uint8]) -> None:
        """Copy bytes to the device, and wait until those of the host may change."""
