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

from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.bootstrap.context import JOIN_TIMEOUT, Context, label_of
from collalgo.bootstrap.host_peer import take
from collalgo.bootstrap.host_root import serve
from collalgo.bootstrap.join_request import (
    GroupLivenessCheck,
    HostLivenessCheck,
    JoinRequest,
    NoLivenessCheck,
    Watch,
)
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm


class HostRendezvous:
    """Processes of one host that share the name of a job.

    Parameters
    ----------
    job
        Its name.
    liveness
        What is known of them.
    transport
        This process's end of a world that they share.
    """

    def __init__(
        self,
        job: str,
        liveness: GroupLivenessCheck | None = None,
        transport: SharedMemory | None = None,
    ):
        self.job = job
        self.liveness = liveness or NoLivenessCheck()
        self.transport = transport

    def connect(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
    ) -> Context:
        """Meet the others that call with the same name: my end of a new world."""
        job = f"{self.job}/{name}" if name else self.job
        liveness = self.liveness.of(members)
        watch: Watch = liveness
        if self.transport is not None:
            watch = HostLivenessCheck(self.transport, liveness, members)
        room = enter(job, rank, members, timeout, watch)
        transport = shm.attach(room.segment, rank, len(members), room.cores)
        return Context(
            transport,
            HostRendezvous(job, liveness, transport),
            room.machine,
            room.watch(transport),
            label=label_of(job, name),
        )


class Room(NamedTuple):
    """The memory that some processes of one host share, and who they are."""

    segment: Segment
    processes: list[int]
    machine: HostProfile | None

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
    join_request = JoinRequest(place, members, time.monotonic() + timeout, watch)
    if place == 0:
        descriptor, processes = serve(address, join_request)
    else:
        descriptor, processes = take(address, join_request)
    try:
        segment = mapped(join_request.size, descriptor)
    finally:
        os.close(descriptor)
    machine = (
        HostProfile.of_settings(segment.settings()) if join_request.size > 1 else None
    )
    return Room(segment, processes, machine)
