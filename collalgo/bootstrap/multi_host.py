"""The rendezvous of the processes of several hosts, over the store of their job."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial

from collalgo._kernels.engine.transport.composite import Composite
from collalgo._kernels.engine.transport.network import Network
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo._kernels.engine.transport.transport import LANES
from collalgo._kernels.engine.transport.wire import Wire
from collalgo.bootstrap.context import (
    JOIN_TIMEOUT,
    Check,
    Context,
    label_of,
    unchecked,
)
from collalgo.bootstrap.host_inventory import HostInventory
from collalgo.bootstrap.host_memory import HostMemory
from collalgo.bootstrap.membership import Membership, PendingJoin
from collalgo.bootstrap.rendezvous import GroupRendezvous, share_memory
from collalgo.bootstrap.store.protocol import Entry, StoreError, add
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.engine.transport.engine import Engine
from collalgo.errors import BootstrapError

#: Seconds between two checks of a wait.
CHECK_SECONDS = 0.25


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


@dataclass
class _NewWorld:
    """A world that some processes of a job join: the view of one of its ranks."""

    path: str
    rank: int
    members: Sequence[int]
    ranks: tuple[int, ...]
    hosts: tuple[int, ...]
    deadline: float
    check: Check

    @property
    def here(self) -> list[int]:
        """Its ranks on the host of this one."""
        mine = self.hosts[self.rank]
        return [rank for rank, host in enumerate(self.hosts) if host == mine]

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.01)

    def awaited(self, key: str, joining: PendingJoin) -> bytes:
        """Wait for a key of the store, with a check now and then."""
        while True:
            turn = min(self.left, CHECK_SECONDS)
            ends = time.monotonic() + turn
            try:
                return joining.get(key, turn)
            except BootstrapError as error:
                self.check()  # first, as who has found a difference may leave
                now, is_late = time.monotonic(), isinstance(error, StoreError)
                if not is_late or now < ends or now >= self.deadline:
                    raise


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
        liveness = job.membership.joining(self._ranks)
        if len(set(hosts)) == 1 and job.memory is not None:
            places = {
                rank: job.places[each]
                for rank, each in enumerate(self._ranks)
                if each in job.places
            }
            groups = GroupRendezvous(job.memory, self._path, places, liveness)
            return groups.connect(
                name, rank, members, timeout, have_met=have_met, check=check
            )
        deadline = time.monotonic() + timeout
        world = _NewWorld(path, rank, members, ranks, hosts, deadline, check)
        return self._across(world, liveness.of(members), label=name)

    def _across(self, world: _NewWorld, joining: PendingJoin, label: str) -> Context:
        """Connect with the other ranks of a world, some of which are on other hosts."""
        job, ranks = self._job, world.ranks
        memory, shared = self._share(world, joining)
        try:
            number, machine = self._assemble(world, joining)
        except BaseException as error:
            shared.close(str(error), failed=True)
            memory.release()
            raise
        network = Network(job.wire, list(ranks), number % job.worlds * LANES)
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
            label_of(f"{job.name}{world.path}", label),
            job.engine,
        )
        context.one_thread = job.wire.one_thread
        return context

    def _share(
        self, world: _NewWorld, joining: PendingJoin
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

    def _assemble(
        self, world: _NewWorld, joining: PendingJoin
    ) -> tuple[int, HostProfile]:
        """Wait for all ranks: the number of the world, and the profile of rank 0."""
        joining.set(f"here/{world.path}/{world.rank}", b"")
        if world.rank:
            number, *settings = json.loads(self._announced(world, joining))
            return number, HostProfile.of_settings(settings)
        self._wait_for_all(world, joining)
        machine, number = host_profile(), add(self._job.membership.store, "worlds", 1)
        announcement = json.dumps([number, *machine.settings()]).encode()
        joining.set(f"world/{world.path}", announcement)
        return number, machine

    def _announced(self, world: _NewWorld, joining: PendingJoin) -> bytes:
        """Wait until rank 0 announces that all ranks have joined."""
        try:
            return world.awaited(f"world/{world.path}", joining)
        except StoreError as error:
            raise self._in_vain(world, f" ({error})") from None

    def _wait_for_all(self, world: _NewWorld, joining: PendingJoin) -> None:
        try:
            for other in range(len(world.members)):
                world.awaited(f"here/{world.path}/{other}", joining)
        except StoreError:
            raise self._in_vain(world) from None

    def _in_vain(self, world: _NewWorld, why: str = "") -> BootstrapError:
        """The error of a wait for ranks that have not joined."""
        prefix = f"here/{world.path}/"
        present: dict[str, Entry] = {}
        with suppress(StoreError):
            present = self._job.membership.store.entries(prefix)
        missing = tuple(
            member
            for rank, member in enumerate(world.members)
            if f"{prefix}{rank}" not in present
        )
        me, size = world.members[world.rank], len(world.members)
        return BootstrapError(
            f"rank {me} waited in vain for ranks {list(missing)} of {size} to join"
            f"{why}; check that they were started",
            rank=me,
            missing=missing,
        )


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
    inventory = HostInventory(membership.store, rank, hosts, title)
    inventory.publish()
    job = Job(name, rank, hosts, membership, inventory, wire, engine.worlds(), title)
    return MultiHostRendezvous(job, everyone)
