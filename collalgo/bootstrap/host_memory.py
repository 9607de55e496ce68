"""The memory that the ranks of one host share, for one of them.

All groups of these ranks take their memory from it: no exchange, and no descriptor, is
needed for a group.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

from collalgo._kernels.engine.transport.group_memory import (
    KEY_BYTES,
    DirectoryInUse,
    GroupMemory,
    PoolExhausted,
    leave_in_place_of,
)
from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.base.cache import recalled
from collalgo.base.digest import blake2b
from collalgo.base.finalizers import Lock
from collalgo.bootstrap.liveness_check import ProcessGone
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.heap import Heap
from collalgo.engine.transport import shm, thread
from collalgo.engine.transport.waiting import Waits, affinity, quota, usable, waits
from collalgo.errors import BootstrapError


class HostMemory:
    """The memory of one host; released when the last of its communicators closes.

    Parameters
    ----------
    segment
        The mapped memory.
    place
        The number of this rank on the host.
    processes
        The process id of each rank of the host.
    machine
        The profile that all ranks of the host use, if they have agreed on one.
    cores
        The number of cores that they share; by default that of the profile, or of this
        process.

    Attributes
    ----------
    heap : Heap
        The heap of this rank, which it has in all groups.
    """

    def __init__(
        self,
        segment: Segment,
        place: int,
        processes: Sequence[int],
        machine: HostProfile | None = None,
        cores: int | None = None,
    ):
        self.place, self.processes, self.machine = place, list(processes), machine
        self._shared_cores = cores or (machine.cores if machine else None)
        self.heap = Heap(segment, place)
        self._segment: Segment | None = segment
        self._process_ends = shm.process_ends(self.processes, place)
        if self._process_ends:
            segment.watch(self._process_ends)
        self._waits: dict[tuple[int, ...], Waits] = {}  # of groups
        self._lock = Lock()
        self._transports: set[SharedMemory] = set()  # until they are released

    def world(self, members: Sequence[int] = (), world_size: int = 0) -> SharedMemory:
        """The transport of the world of all ranks of the host.

        In a world on several hosts, ``members`` are the ranks of this host.
        """
        assert self._segment is not None
        places = range(len(self.processes))
        across = world_size > len(places)
        how = waits(len(places), self._shared_cores, across=across)
        return self._attach(self._segment, places, how, members, world_size)

    def group(
        self,
        name: str,
        places: Sequence[int],
        deadline: float,
        members: Sequence[int] = (),
        world_size: int = 0,
    ) -> SharedMemory:
        """The transport of a group of the ranks with these numbers on the host.

        Raises
        ------
        BootstrapError
            If there is no memory for it.
        """
        key = blake2b(name.encode(), digest_size=KEY_BYTES).digest()
        segment = self._open(key, places, deadline)
        if world_size > len(places):
            how = waits(len(places), self._cores(places), across=True)
        else:
            how = recalled(self._waits, tuple(places), self._waits_of)
        return self._attach(segment, places, how, members, world_size)

    def _attach(
        self,
        segment: Segment,
        places: Sequence[int],
        how: Waits,
        members: Sequence[int],
        world_size: int,
    ) -> SharedMemory:
        rank, size = places.index(self.place), len(places)
        if segment.of_threads:
            transport = thread.attach(segment, rank, size, how.usual)
        else:
            may_read = self._readable.issuperset(places)
            process = self.processes[self.place] if may_read else 0
            transport = SharedMemory(
                segment, rank, size, how, members, world_size, process
            )
        for other, place in enumerate(places if self._process_ends else ()):
            if place in self._process_ends:
                transport.watch(other, self._process_ends[place])
        self._transports.add(transport)
        return transport

    def _open(self, key: bytes, places: Sequence[int], deadline: float) -> GroupMemory:
        """Find the memory of a group by its key; the first of its ranks takes it."""
        is_new = True
        while self._segment is not None:
            try:
                return GroupMemory(self._segment, key, places, self.place)
            except DirectoryInUse as error:
                if time.monotonic() >= deadline:
                    raise BootstrapError(f"cannot make a group: {error}") from None
            except PoolExhausted as error:
                if not (is_new and self._leave_for_ended()):
                    raise BootstrapError(
                        f"cannot make a group: {error} are in use on this host; "
                        "close some"
                    ) from None
                is_new = False
        raise BootstrapError("cannot make a group: all communicators here are closed")

    def ended(self) -> list[int]:
        """The numbers on the host of the ranks whose process has ended."""
        segment = self._segment
        return [] if segment is None else segment.ended()

    def _leave_for_ended(self) -> bool:
        """Leave all groups on behalf of ended ranks; return whether there were any."""
        segment, ended = self._segment, self.ended()
        if segment is None:
            return False
        for place in ended:
            with suppress(DirectoryInUse):  # later, or another rank does so
                leave_in_place_of(segment, self.place, place)
        return bool(ended)

    @cached_property
    def _readable(self) -> set[int]:
        """The ranks of which this one may read the memory, itself included."""
        return {self.place, *shm.readable(self.processes, self.place)}

    def _waits_of(self, places: tuple[int, ...]) -> Waits:
        """The wait loop of a group of ranks of this host."""
        return waits(len(places), self._cores(places))

    @cached_property
    def _affinities(self) -> list[set[int]]:
        """The cores that each process may use, as of the first group."""
        return [affinity(process) for process in self.processes]

    @cached_property
    def _quota(self) -> float:
        return quota()

    def _cores(self, places: Sequence[int]) -> int:
        """The number of cores that some ranks share."""
        allowed = (self._affinities[place] for place in places)
        return usable(set().union(*allowed), self._quota)

    def abort(self, reason: str) -> None:
        """Make all calls of this rank fail."""
        for transport in list(self._transports):
            transport.close(reason, failed=True)

    def release(self, transport: SharedMemory) -> None:
        """Release a transport, which is closed; the last releases the memory."""
        self._leave_for_ended()
        with self._lock:
            self._transports.discard(transport)
            if self._transports:
                return
        segment, self._segment = self._segment, None
        self.heap.close()
        if segment is not None and self._process_ends:
            segment.watch({})  # groups may still use it, but not these descriptors
        while self._process_ends:
            os.close(self._process_ends.popitem()[1])


def withdraw(transport: SharedMemory) -> bool:
    """Refuse further ranks of a group, to retry it: False if all have joined.

    A rank that uses the directory of the groups for long is tried again.
    """
    segment = transport.segment
    if not isinstance(segment, GroupMemory):
        return True
    with suppress(DirectoryInUse):
        return segment.withdraw()
    return False


def await_all(
    transport: SharedMemory,
    members: Sequence[int],
    deadline: float,
    check: Callable[[], None],
) -> None:
    """Wait until all ranks of a new group have attached to its memory.

    Parameters
    ----------
    transport
        The transport of this rank in the group.
    members
        The ranks of the group, as errors call them.
    deadline
        The end of the wait, by the monotonic clock.
    check
        Raises BootstrapError if one of them cannot join any more.
    """
    me = members[transport.rank]
    while not transport.await_all():
        try:
            check()
        except BootstrapError:
            if not transport.absent():  # the last to join may have left
                return
            raise
        left = [
            (rank, departure[1])
            for rank in range(transport.size)
            if (departure := transport.departure(rank))
        ]
        absent = [members[rank] for rank in transport.absent()]
        if left and absent:
            gone, why = left[0]
            raise ProcessGone(me, members[gone], why)
        refuse_late(transport, members, deadline)


def refuse_late(
    transport: SharedMemory, members: Sequence[int], deadline: float
) -> None:
    """Raise BootstrapError if ranks of a group have not joined by a deadline."""
    if time.monotonic() < deadline:
        return
    absent = [members[rank] for rank in transport.absent()]
    if absent and withdraw(transport):
        me = members[transport.rank]
        raise BootstrapError(
            f"rank {me} waited for ranks {absent} of {len(members)}, which did not "
            "join in time; make the same call there, too, with the same ranks",
            rank=me,
            missing=tuple(absent),
        )
