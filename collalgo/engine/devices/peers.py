"""The addresses of the buffers of all ranks in each process."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from collalgo.base.cache import make_room
from collalgo.engine.arrays import Array
from collalgo.engine.devices.buffer_exchange import NOTHING, BufferExchange, bus_of
from collalgo.engine.devices.operations import BUFFERS, FLAGS, OUTBOX, flag_bytes
from collalgo.engine.devices.runtime import Export, Memory, Runtime
from collalgo.engine.devices.watch import Watch
from collalgo.engine.plan.rows import SCRATCH

log = logging.getLogger("collalgo")

#: Memory that cannot be released, as unfinished streams use it.
_abandoned: list["Peers"] = []

#: An exchange of bytes among all ranks: the bytes of each, of any length.
Exchange: TypeAlias = Callable[[bytes], Sequence[bytes]]

#: The addresses of the buffers of each rank in this process; ranks that are missing in
#: the mapping are unknown.
Bases: TypeAlias = Mapping[int, Sequence[int]]


class Sharing(NamedTuple):
    """The use of the device of a rank.

    Attributes
    ----------
    ranks : int
        The number of ranks on it.
    in_turns : bool
        Whether they use it in turns, so that a waiting kernel blocks the others.
    """

    ranks: int
    in_turns: bool


class Peers:
    """The buffers of all ranks, mapped into this process.

    Parameters
    ----------
    hosts
        The number of the host of each rank.

    Attributes
    ----------
    near : bool
        Whether all are on one host.
    crowded : bool
        Whether ranks may share a process, and with it streams.
    sharing : Sharing
        The use of the device of this rank, as of the last exchange.
    """

    def __init__(self, hosts: Sequence[int]):
        self.crowded = len(hosts) > 1
        self.sharing = Sharing(1, in_turns=False)
        self._size = len(hosts)
        self.near = len(set(hosts)) == 1
        self._own: dict[tuple[int, int], Memory] = {}  # by device and buffer
        self._outgrown: list[Memory] = []
        self._exports: dict[int, Export | None] = {}  # of own memory
        self._offers: dict[tuple[object, ...], bytes] = {}
        self._mapped: dict[tuple[int, bytes], int] = {}
        self._known: dict[tuple[int, bytes], tuple[bool, Sharing, Bases | None]] = {}
        self._runtime: Runtime | None = None
        self._tried: list[tuple[int, int]] = []
        self._reach_all = False
        self._watch: Watch | None = None

    def offer(
        self, runtime: Runtime, arrays: Sequence[int], scratch: int, outbox: int
    ) -> bytes:
        """The record of this rank for the exchange before a call.

        Parameters
        ----------
        runtime
            The device of this rank.
        arrays
            The addresses of input and output of this rank, 0 if it has none.
        scratch, outbox
            The sizes of these buffers.
        """
        self._runtime = runtime
        flags = self._room(runtime, FLAGS, flag_bytes(self._size))
        pointers = (*self.own(runtime, arrays, scratch, outbox), flags)
        # A new allocation may have the address of an old one.
        allocations = tuple(runtime.allocation(p) for p in set(arrays) - {0})
        key = runtime.device, pointers, allocations
        if key not in self._offers or None in allocations:
            self._offers[key] = self._offered(runtime, arrays, pointers)
            make_room(self._offers)
        return self._offers[key]

    def _offered(
        self, runtime: Runtime, arrays: Sequence[int], pointers: Sequence[int]
    ) -> bytes:
        """The record of buffers; the arrays belong to the user."""
        found = {p: runtime.export(p) for p in set(arrays) - {0}} | {0: NOTHING}
        exports = [
            found[p] if p in found else self._export(runtime, p) for p in pointers
        ]
        mappable = self.near and all(export is not None for export in exports)
        handles = [export or NOTHING for export in exports]
        return BufferExchange(
            runtime.process,
            runtime.device,
            bus_of(runtime),
            mappable,
            handles,
            list(pointers),
        ).pack()

    def own(
        self, runtime: Runtime, arrays: Sequence[int], scratch: int, box: int
    ) -> list[int]:
        """The addresses of the buffers of this rank, except its flags."""
        return [
            *arrays,
            self._room(runtime, SCRATCH, scratch),
            self._room(runtime, OUTBOX, box),
        ]

    def found(
        self, runtime: Runtime, records: Array, exchange: Exchange
    ) -> Bases | None:
        """The addresses of all buffers; None if a rank cannot access another.

        The result of an exchange is cached, on all ranks alike.

        Parameters
        ----------
        runtime
            The device of this rank.
        records
            The records of all ranks, in rows.
        exchange
            A further exchange, if the devices have changed.
        """
        key = runtime.device, records.tobytes()
        if key not in self._known:
            buffers = [BufferExchange.unpack(record.tobytes()) for record in records]
            crowded = len({each.process for each in buffers}) < self._size
            bases = self._bases(runtime, buffers, exchange)
            self._known[key] = crowded, _sharing(runtime, buffers), bases
            make_room(self._known)
        self.crowded, self.sharing, bases = self._known[key]
        return bases

    def _bases(
        self, runtime: Runtime, offers: Sequence[BufferExchange], exchange: Exchange
    ) -> Bases | None:
        if not all(offer.mappable for offer in offers):
            return None
        places = [(offer.process, offer.device) for offer in offers]
        if places != self._tried:
            self._reach_all = all_can(self._reaches(runtime, offers), exchange)
            self._tried = places
            self._watch_over(runtime, offers)
        if not self._reach_all:
            return None
        return {
            rank: [self._address(runtime, rank, buffer, offer) for buffer in BUFFERS]
            for rank, offer in enumerate(offers)
        }

    def _watch_over(self, runtime: Runtime, offers: Sequence[BufferExchange]) -> None:
        """Watch the other processes, to release streams once one has ended."""
        others = {
            rank: offer.process
            for rank, offer in enumerate(offers)
            if offer.process != runtime.process
        }
        if self._watch is not None:
            self._watch.close()
        if others and self._reach_all:
            self._watch = Watch(others, self.end_waits)

    def end_waits(self) -> None:
        """End all waits on the streams of this rank."""
        for (_, buffer), memory in list(self._own.items()):
            if buffer == FLAGS and self._runtime is not None:
                with self._runtime.current():
                    self._runtime.end_waits(memory)

    def _reaches(self, runtime: Runtime, offers: Sequence[BufferExchange]) -> bool:
        """Whether this rank can map the flags of all others."""
        try:
            for rank, offer in enumerate(offers):
                self._address(runtime, rank, FLAGS, offer)
        except OSError as error:
            log.info("rank %d cannot be reached from here: %s", rank, error)
            return False
        return True

    def abandon(self) -> None:
        """Stop watching, but keep all memory, as unfinished streams use it."""
        if self._watch is not None:
            self._watch.close()
        _abandoned.append(self)

    def close(self) -> None:
        """Unmap the memory of others, and release the own memory."""
        if self._watch is not None:
            self._watch.close()
        while self._mapped and self._runtime is not None:
            self._runtime.close(self._mapped.popitem()[1])
        self._own.clear()
        self._outgrown.clear()
        self._exports.clear()
        self._offers.clear()
        self._known.clear()

    def _room(self, runtime: Runtime, buffer: int, nbytes: int) -> int:
        """A buffer of this rank that is large enough.

        Outgrown buffers are kept, as streams and graphs may still use them; as sizes at
        least double, they add at most the size of the current buffer.
        """
        key = runtime.device, buffer
        known = self._own.get(key)
        if known is None:
            known = self._own[key] = self._new(runtime, buffer, nbytes)
        elif known.shape[0] < nbytes:
            self._outgrown.append(known)
            larger = max(nbytes, 2 * known.shape[0])
            known = self._own[key] = self._new(runtime, buffer, larger)
        return known.pointer

    def _export(self, runtime: Runtime, pointer: int) -> Export | None:
        """The export of a buffer of this rank, which does not move."""
        if pointer not in self._exports:
            self._exports[pointer] = runtime.export(pointer)
        return self._exports[pointer]

    @staticmethod
    def _new(runtime: Runtime, buffer: int, nbytes: int) -> Memory:
        nbytes = max(nbytes, 256)
        if buffer == FLAGS:
            return runtime.upload(np.zeros(nbytes, np.uint8))
        return runtime.empty((nbytes,), np.dtype(np.uint8))

    def _address(
        self, runtime: Runtime, rank: int, buffer: int, offer: BufferExchange
    ) -> int:
        """The address of a buffer of a rank in this process.

        Raises
        ------
        OSError
            If it cannot be mapped.
        """
        pointer, export = offer.pointers[buffer], offer.exports[buffer]
        if pointer == 0:
            return 0
        if offer.process == runtime.process:
            runtime.reach(offer.device)
            return pointer
        key = rank, export.handle
        if key not in self._mapped:
            self._mapped[key] = runtime.open(export.handle)
        return self._mapped[key] + export.offset


def all_can(able: bool, exchange: Exchange) -> bool:
    """Whether all ranks can do something; the same result on all."""
    return all(told[0] for told in exchange(bytes([able])))


def _sharing(runtime: Runtime, offers: Sequence[BufferExchange]) -> Sharing:
    bus = bus_of(runtime)
    here = [offer.process for offer in offers if offer.bus == bus]
    return Sharing(len(here), len(set(here)) > 1 and runtime.in_turns)
