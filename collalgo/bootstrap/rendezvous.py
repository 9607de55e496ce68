"""The rendezvous of the processes of one host.

Rank 0 makes the memory of the world and hands it to the others over a Unix socket in
the abstract namespace: no file, no port, gone with the process. Both sides ask the
kernel who the other is and talk only to processes of the same user.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from collalgo._kernels.segment import Segment
from collalgo._kernels.shared_memory import SharedMemory
from collalgo.bootstrap.guest import take
from collalgo.bootstrap.leader import hand_out
from collalgo.bootstrap.party import Neighbours, NoRoll, Party, Roll, Watch
from collalgo.connection import JOIN_TIMEOUT, Connection, label_of
from collalgo.heap import mapped
from collalgo.machine import Machine
from collalgo.transport import shm


class HostOrigin:
    """Processes of one host that share the name of a job.

    Parameters
    ----------
    job
        Its name.
    roll
        What is known of them.
    transport
        This process's end of a world that they share.
    """

    def __init__(
        self,
        job: str,
        roll: Roll | None = None,
        transport: SharedMemory | None = None,
    ):
        self.job = job
        self.roll = roll or NoRoll()
        self.transport = transport

    def meet(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
    ) -> Connection:
        """Meet the others that call with the same name: my end of a new world."""
        job = f"{self.job}/{name}" if name else self.job
        roll = self.roll.of(members)
        watch: Watch = roll
        if self.transport is not None:
            watch = Neighbours(self.transport, roll, members)
        room = enter(job, rank, members, timeout, watch)
        transport = shm.attach(room.segment, rank, len(members), room.cores)
        return Connection(
            transport,
            HostOrigin(job, roll, transport),
            room.machine,
            room.watch(transport),
            label=label_of(job, name),
        )


class Room(NamedTuple):
    """The memory that some processes of one host share, and who they are."""

    segment: Segment
    processes: list[int]
    machine: Machine | None

    @property
    def cores(self) -> int | None:
        """How many cores the processes have together, if somebody has counted them."""
        return self.machine.cores if self.machine else None

    def watch(self, transport: SharedMemory) -> list[int]:
        """Let a rank see to the others: the descriptors to be closed at the end."""
        transport.allow_fetching(self.processes)
        return shm.watch(transport, self.processes)


def enter(
    job: str,
    place: int,
    members: Sequence[int],
    timeout: float,
    watch: Watch,
) -> Room:
    """Meet the other processes of this host that come to the same job."""
    address = "\0collalgo-" + hashlib.sha256(job.encode()).hexdigest()[:32]
    party = Party(place, members, time.monotonic() + timeout, watch)
    if place == 0:
        descriptor, processes = hand_out(address, party)
    else:
        descriptor, processes = take(address, party)
    try:
        segment = mapped(party.size, descriptor)
    finally:
        os.close(descriptor)
    machine = Machine.of_settings(segment.settings()) if party.size > 1 else None
    return Room(segment, processes, machine)
