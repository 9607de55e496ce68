"""The rendezvous of the ranks of one host: of its processes, and of their groups.

Rank 0 makes the shared memory of the world and passes it to the others over a Unix
socket in the abstract namespace: no file, no port, gone with the process. Both sides
ask the kernel for the other's user, and refuse processes of other users.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence

from collalgo._kernels.engine.transport.segment import RANKS
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.base.code_identity import agree_on_dates
from collalgo.base.digest import hexadecimal
from collalgo.bootstrap.context import (
    JOIN_TIMEOUT,
    Check,
    Context,
    unchecked,
)
from collalgo.bootstrap.host_memory import (
    HostMemory,
    await_all,
    refuse_late,
    withdraw,
)
from collalgo.bootstrap.join_request import JoinRequest
from collalgo.bootstrap.liveness_check import (
    GroupLivenessCheck,
    LivenessCheck,
    NoLivenessCheck,
    check_alive,
)
from collalgo.cost.host_profile import HostProfile, agree_on_profile
from collalgo.engine.heap import mapped
from collalgo.errors import BootstrapError


class HostRendezvous:
    """Processes of one host that know the name of a job.

    Parameters
    ----------
    job
        The name.
    liveness
        Detects the end of one of them.
    """

    def __init__(self, job: str, liveness: LivenessCheck | None = None):
        self.job = job
        self._liveness = liveness or NoLivenessCheck()

    def connect(
        self,
        _name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
    ) -> Context:
        """Connect all of them as their world."""
        if len(members) > RANKS:
            raise BootstrapError(
                f"{len(members)} ranks on one host; it can hold {RANKS} at most",
                rank=rank,
            )
        memory = share_memory(self.job, rank, members, timeout, self._liveness)
        return world_of(memory, self.job, members)


def world_of(memory: HostMemory, job: str, members: Sequence[int]) -> Context:
    """The world of all ranks that share the memory of a host."""
    transport = memory.world()
    rendezvous = GroupRendezvous(memory, job, members, NoLivenessCheck(), transport)
    return Context(transport, rendezvous, memory, memory.machine, path=(job, ""))


class GroupRendezvous:
    """The ranks of a world on one host, which make groups in the memory of that host.

    Parameters
    ----------
    memory
        The memory of the host.
    name
        The name of the world.
    places
        The number on the host of each of its ranks on that host.
    liveness
        Detects the end of one of them.
    transport
        The transport of this rank in the world; None if it has other hosts, too.
    """

    def __init__(
        self,
        memory: HostMemory,
        name: str,
        places: Mapping[int, int] | Sequence[int],
        liveness: GroupLivenessCheck,
        transport: SharedMemory | None = None,
    ):
        self._memory, self._name, self._places = memory, name, places
        self._liveness, self._transport = liveness, transport

    def connect(
        self,
        name: str,
        _rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
        *,
        have_met: bool = False,
        check: Check = unchecked,
    ) -> Context:
        """Connect with the others that call with the same name, as a new world."""
        path, deadline = f"{self._name}/{name}", time.monotonic() + timeout
        places = [self._places[member] for member in members]
        transport = self._memory.group(path, places, deadline)
        of_members = self._liveness.of(members)
        rendezvous = GroupRendezvous(self._memory, path, places, of_members, transport)
        context = Context(transport, rendezvous, self._memory, path=(path, name))
        if not have_met:
            self._await(context, members, deadline, check)
        return context

    def suffices(self, _members: Sequence[int]) -> bool:
        """That some ranks need no others: each of them has the memory."""
        return True

    def lost(self) -> list[int]:
        """The ranks whose process has ended; a rank of this host is lost only so."""
        ended, places = self._memory.ended(), self._places
        known = places.items() if isinstance(places, Mapping) else enumerate(places)
        return [rank for rank, place in known if place in ended]

    def connect_survivors(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float,
        is_gone: Callable[[int], bool],
    ) -> Context | None:
        """Connect the survivors; None on all if one ends before it has joined."""
        deadline = time.monotonic() + timeout
        context = self.connect(name, rank, members, timeout, have_met=True)
        shared = context.shared
        try:
            while not shared.await_all():
                gone = {each for each in members if is_gone(each)}
                absent = {members[place] for place in shared.absent()}  # asked last
                if gone & absent:
                    withdraw(shared)
                    context.abort("the survivors connect again")
                    return None
                refuse_late(shared, members, deadline)
        except BaseException as error:
            withdraw(shared)
            context.abort(str(error))
            raise
        return context

    def _await(
        self,
        context: Context,
        members: Sequence[int],
        deadline: float,
        check: Check,
    ) -> None:
        """Wait until all members have joined, or leave the new world."""

        def check_absent() -> None:
            check()  # first, as a rank that found a difference may leave
            absent = [members[place] for place in context.shared.absent()]
            self._liveness.of(absent).check()
            if self._transport is not None:
                check_alive(self._transport, absent)

        try:
            await_all(context.shared, members, deadline, check_absent)
        except BaseException as error:
            withdraw(context.shared)
            context.abort(str(error))
            raise


def address_of(job: str) -> str:
    """The address of the rendezvous socket, derived from the name of a job."""
    return "\0collalgo-" + hexadecimal(job, 32)


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
    join_request = JoinRequest(local_rank, members, timeout, deadline, liveness)
    if local_rank == 0:  # each imports what it needs, which takes a while
        from collalgo.bootstrap.host_root import serve

        descriptor, processes = serve(address, join_request)
    else:
        from collalgo.bootstrap.host_peer import join

        descriptor, processes = join(address, join_request)
    try:
        segment = mapped(join_request.size, descriptor)
    finally:
        os.close(descriptor)
    machine = None
    if join_request.size > 1:
        settings = segment.settings()
        machine = HostProfile.of_settings(settings)
        agree_on_profile(machine)
        agree_on_dates(int(settings[len(machine.settings())]))
    return HostMemory(segment, local_rank, processes, machine)
