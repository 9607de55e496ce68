"""The rendezvous of the processes of one host.

Rank 0 makes the shared memory of the world and passes it to the others over a Unix
socket in the abstract namespace: no file, no port, gone with the process. Both sides
ask the kernel for the other's user, and refuse processes of other users.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from typing import NamedTuple

from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.bootstrap.context import JOIN_TIMEOUT, Context, label_of
from collalgo.bootstrap.host_peer import join
from collalgo.bootstrap.host_root import serve
from collalgo.bootstrap.join_request import (
    GroupLivenessCheck,
    HostLivenessCheck,
    JoinRequest,
    LivenessCheck,
    NoLivenessCheck,
)
from collalgo.cost.host_profile import HostProfile
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm


class HostRendezvous:
    """Processes of one host that know the name of a job.

    Parameters
    ----------
    job
        The name.
    liveness
        Detects the end of one of them.
    transport
        The transport of this process in a world that they share already.
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
        """Connect with the others that call with the same name, as a new world."""
        job = f"{self.job}/{name}" if name else self.job
        of_members = self.liveness.of(members)
        liveness: LivenessCheck = of_members
        if self.transport is not None:
            liveness = HostLivenessCheck(self.transport, of_members, members)
        memory = share_memory(job, rank, members, timeout, liveness)
        transport = shm.attach(memory.segment, rank, len(members), memory.cores)
        return Context(
            transport,
            HostRendezvous(job, of_members, transport),
            memory.machine,
            memory.watch(transport),
            label=label_of(job, name),
        )


class HostMemory(NamedTuple):
    """The memory that some processes of one host share, and their process ids."""

    segment: Segment
    processes: list[int]
    machine: HostProfile | None

    @property
    def cores(self) -> int | None:
        """The number of cores that the processes share, if it is known."""
        return self.machine.cores if self.machine else None

    def watch(self, transport: SharedMemory) -> list[int]:
        """Let a rank detect the end of the others; descriptors to close at the end."""
        transport.allow_fetching(self.processes)
        return shm.watch(transport, self.processes)


def address_of(job: str) -> str:
    """The address of the socket at which processes that know a job's name meet."""
    return "\0collalgo-" + hashlib.sha256(job.encode()).hexdigest()[:32]


def share_memory(
    job: str,
    local_rank: int,
    members: Sequence[int],
    timeout: float,
    liveness: LivenessCheck,
) -> HostMemory:
    """Share memory with the other processes of this host that name the same job."""
    address = address_of(job)
    deadline = time.monotonic() + timeout
    join_request = JoinRequest(local_rank, members, deadline, liveness)
    if local_rank == 0:
        descriptor, processes = serve(address, join_request)
    else:
        descriptor, processes = join(address, join_request)
    try:
        segment = mapped(join_request.size, descriptor)
    finally:
        os.close(descriptor)
    machine = (
        HostProfile.of_settings(segment.settings()) if join_request.size > 1 else None
    )
    return HostMemory(segment, processes, machine)
