"""The rendezvous of the processes of several hosts, over the store of their job."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from collalgo._kernels.engine.transport.composite import Composite
from collalgo._kernels.engine.transport.network import TAGS, Network
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo._kernels.engine.transport.wire import Wire
from collalgo.bootstrap.context import (
    JOIN_TIMEOUT,
    Check,
    Context,
    unchecked,
)
from collalgo.bootstrap.host_inventory import HostInventory
from collalgo.bootstrap.host_memory import HostMemory
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.new_world import NewWorld, assemble
from collalgo.bootstrap.pending_join import PendingJoin
from collalgo.bootstrap.rendezvous import GroupRendezvous, share_memory
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.engine.transport.engine import Engine
from collalgo.errors import BootstrapError


@dataclass
class Job:
    """The processes of a job on several hosts.

    Attributes
    ----------
    name : str
        A name that only these processes know.
    rank : int
        The rank of this process.
    hosts : tuple of int
        The number of the host of each process.
    membership : Membership
        The processes that are alive.
    inventory : HostInventory
        The machines of the processes.
    wire : Wire
        The end of this process of the engine between hosts, which calls the processes
        by their ranks.
    worlds : int
        The number of worlds that the tags of the engine can tell apart.
    engine : str
        The name of the engine.
    memory : HostMemory or None
        The memory of the host, once the processes of the host share it.
    """

    name: str
    rank: int
    hosts: tuple[int, ...]
    membership: Membership
    inventory: HostInventory
    wire: Wire
    worlds: int
    engine: str
    memory: HostMemory | None = None

    @cached_property
    def places(self) -> dict[int, int]:
        """The numbers of the processes of this host on it, by their ranks."""
        mine = self.hosts[self.rank]
        here = [rank for rank, host in enumerate(self.hosts) if host == mine]
        return {rank: place for place, rank in enumerate(here)}


class MultiHostRendezvous:
    """Some processes of a job, which may be on several hosts.

    Parameters
    ----------
    job
        The job.
    ranks
        The ranks of the processes in the job.
    path
        The name of their world.
    """

    def __init__(self, job: Job, ranks: Sequence[int], path: str = ""):
        self._job = job
        self._ranks = tuple(ranks)
        self._path = path

    def connect(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float = JOIN_TIMEOUT,
        *,
        have_met: bool = False,
        check: Check = unchecked,
    ) -> Context:
        """Connect with the others that call with the same name, as a new world."""
        job = self._job
        path = f"{self._path}/{name}"
        ranks = tuple(self._ranks[member] for member in members)
        hosts = tuple(job.hosts[each] for each in ranks)
        if (groups := self._on_host(hosts)) is not None:
            return groups.connect(
                name, rank, members, timeout, have_met=have_met, check=check
            )
        deadline = time.monotonic() + timeout
        world = NewWorld(path, rank, members, ranks, hosts, deadline, check)
        joining = job.membership.joining(self._ranks).of(members)
        return self._across(world, joining, label=name)

    def suffices(self, members: Sequence[int]) -> bool:
        """Whether the rank that holds the store is one of these."""
        holder = self._job.membership.store_rank
        return holder is None or holder in {self._ranks[each] for each in members}

    def lost(self) -> list[int]:
        """The ranks that have ended, or that this one cannot reach."""
        job, own = self._job, enumerate(self._ranks)
        ended = job.memory.ended() if job.memory is not None else []
        return [
            rank
            for rank, each in own
            if job.membership.is_gone(each)
            or job.wire.has_lost(each)
            or job.places.get(each) in ended
        ]

    def connect_survivors(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float,
        is_gone: Callable[[int], bool],
    ) -> Context | None:
        """Connect the survivors; None on all if one ends before it has joined."""
        hosts = tuple(self._job.hosts[self._ranks[member]] for member in members)
        if (groups := self._on_host(hosts)) is not None:
            return groups.connect_survivors(name, rank, members, timeout, is_gone)
        deadline = time.monotonic() + timeout
        try:
            return self.connect(name, rank, members, timeout)
        except StoreError:
            raise
        except BootstrapError:
            if time.monotonic() >= deadline:
                raise
            return None

    def _on_host(self, hosts: tuple[int, ...]) -> GroupRendezvous | None:
        """What connects ranks that are all on this host, if they are."""
        job = self._job
        if len(set(hosts)) > 1 or job.memory is None:
            return None
        liveness = job.membership.joining(self._ranks)
        places = {
            rank: job.places[each]
            for rank, each in enumerate(self._ranks)
            if each in job.places
        }
        return GroupRendezvous(job.memory, self._path, places, liveness)

    def _across(self, world: NewWorld, joining: PendingJoin, label: str) -> Context:
        """Connect with the other ranks of a world, some of which are on other hosts."""
        job, ranks = self._job, world.ranks
        memory, shared = self._share(world, joining)
        try:
            number, machine = assemble(world, joining, job.membership.store)
        except BaseException as error:
            shared.close(str(error), failed=True)
            memory.release(shared)
            raise
        network = Network(job.wire, list(ranks), number % job.worlds * TAGS)
        transport = Composite(shared, network, len(ranks))
        # Long: one line for each part of a context.
        context = Context(
            transport,
            MultiHostRendezvous(job, ranks, world.path),
            memory,
            machine,
            world.hosts,
            job.membership.register(world.path, transport, ranks),
            partial(job.inventory.placed, ranks),
            (f"{job.name}{world.path}", label),
            job.engine,
        )
        context.one_thread = job.wire.one_thread
        return context

    def _share(
        self, world: NewWorld, joining: PendingJoin
    ) -> tuple[HostMemory, SharedMemory]:
        """The memory of this host, and the transport in it to the ranks here."""
        job, here, size = self._job, world.here, len(world.ranks)
        if job.memory is not None:
            places = [job.places[world.ranks[each]] for each in here]
            return job.memory, job.memory.group(
                world.path, places, world.deadline, here, size
            )
        name = f"{job.name}@{world.hosts[world.rank]}/{world.path}"
        names, me = [world.members[each] for each in here], here.index(world.rank)
        job.memory = share_memory(name, me, names, world.left, joining)
        return job.memory, job.memory.world(here, size)


def begin(
    name: str,
    membership: Membership,
    hosts: tuple[int, ...],
    engine: Engine,
    wire: Wire,
) -> MultiHostRendezvous:
    """Begin a job on several hosts: the rendezvous of all its processes.

    Parameters
    ----------
    name
        A name that only these processes know.
    membership
        The processes that are alive; it has begun.
    hosts
        The number of the host of each process.
    engine
        The engine that carries messages between the hosts.
    wire
        The end of this process of that engine.
    """
    rank, everyone = membership.rank, range(len(hosts))
    title = engine.title()
    inventory = HostInventory(membership.joining(everyone), rank, hosts, title)
    inventory.publish()
    job = Job(name, rank, hosts, membership, inventory, wire, engine.worlds(), title)
    return MultiHostRendezvous(job, everyone)
