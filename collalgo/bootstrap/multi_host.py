"""The rendezvous of the processes of several hosts, over the store of their job."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from collalgo._kernels.engine.transport.composite import Composite
from collalgo._kernels.engine.transport.network import Network
from collalgo._kernels.engine.transport.transport import LANES
from collalgo._kernels.engine.transport.wire import Wire
from collalgo.bootstrap.context import JOIN_TIMEOUT, Context, label_of
from collalgo.bootstrap.host_inventory import HostInventory
from collalgo.bootstrap.membership import Membership, PendingJoin
from collalgo.bootstrap.rendezvous import HostRendezvous, enter
from collalgo.bootstrap.store.client import StoreError
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.engine.transport import shm
from collalgo.engine.transport.engine import Engine
from collalgo.errors import BootstrapError


@dataclass
class Job:
    """The processes of a job on several hosts.

    Attributes
    ----------
    name : str
        What only these processes share.
    rank : int
        Which of them this is.
    hosts : tuple of int
        The number of the host of each.
    membership : Membership
        What this process knows of the others.
    survey : HostInventory
        What it knows of their machines.
    wire : Wire
        Its end of the engine between hosts.
    addresses : tuple of int
        What the engine calls each process.
    worlds : int
        So many worlds can be told apart by the tags of the engine.
    engine : str
        The name of the engine.
    """

    name: str
    rank: int
    hosts: tuple[int, ...]
    membership: Membership
    survey: HostInventory
    wire: Wire
    addresses: tuple[int, ...]
    worlds: int
    engine: str


class MultiHostRendezvous:
    """Some processes of a job, which may be on several hosts.

    Parameters
    ----------
    job
        The job.
    ranks
        Of the processes, in the job.
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
    ) -> Context:
        """Meet the others that call with the same name: my end of a new world."""
        job = self._job
        path = f"{self._path}/{name}"
        ranks = tuple(self._ranks[member] for member in members)
        hosts = tuple(job.hosts[each] for each in ranks)
        liveness = job.membership.joining(self._ranks)
        if len(set(hosts)) == 1:
            rendezvous = HostRendezvous(f"{job.name}@{hosts[0]}", liveness)
            return rendezvous.connect(path, rank, members, timeout)
        deadline = time.monotonic() + timeout
        here = [i for i, host in enumerate(hosts) if host == hosts[rank]]
        place, local = here.index(rank), f"{job.name}@{hosts[rank]}/{path}"
        guests = [members[each] for each in here]
        board = liveness.of(members)
        room = enter(local, place, guests, timeout, board)
        number, machine = self._assemble(board, path, rank, members, deadline)
        shared = shm.attach(
            room.segment, place, len(here), room.cores, here, len(ranks)
        )
        addresses = [job.addresses[each] for each in ranks]
        tag = number % job.worlds * LANES
        transport = Composite(shared, Network(job.wire, addresses, tag), len(ranks))
        return Context(
            transport,
            MultiHostRendezvous(job, ranks, path),
            machine,
            room.watch(shared),
            hosts,
            job.membership.register(path, transport, ranks),
            partial(job.survey.ground, ranks),
            label_of(f"{job.name}{path}", name),
            job.engine,
        )

    def _assemble(
        self,
        board: PendingJoin,
        path: str,
        rank: int,
        members: Sequence[int],
        deadline: float,
    ) -> tuple[int, HostProfile]:
        """Wait until all are there: the number of the world, and rank 0's figures."""
        store = self._job.membership.store
        board.set(f"here/{path}/{rank}", b"")
        if rank:
            try:
                found = board.get(f"world/{path}", _left(deadline))
            except StoreError as error:
                raise BootstrapError(
                    f"rank {members[rank]} waited in vain for rank {members[0]} and "
                    f"all others to join ({error})",
                    rank=members[rank],
                ) from None
            number, *settings = json.loads(found)
            return number, HostProfile.of_settings(settings)
        for other in range(len(members)):
            try:
                board.get(f"here/{path}/{other}", _left(deadline))
            except StoreError:
                come = {key.rpartition("/")[2] for key in store.keys(f"here/{path}/")}
                missing = tuple(
                    member
                    for place, member in enumerate(members)
                    if str(place) not in come
                )
                raise BootstrapError(
                    f"rank {members[0]} waited in vain for ranks {list(missing)} of "
                    f"{len(members)} to join; see whether they were started",
                    rank=members[0],
                    missing=missing,
                ) from None
        machine, number = host_profile(), store.add("worlds", 1)
        world = json.dumps([number, *machine.settings()]).encode()
        board.set(f"world/{path}", world)
        return number, machine


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.01)


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
        What only these processes share.
    membership
        What this process knows of the others, which has begun.
    hosts
        The number of the host of each process.
    engine
        What carries messages between the hosts.
    wire
        This process's end of it, which calls the processes by their ranks.
    """
    rank, everyone = membership.rank, range(len(hosts))
    title = engine.title()
    survey = HostInventory(membership.store, rank, hosts, title)
    survey.tell()
    job = Job(
        name,
        rank,
        hosts,
        membership,
        survey,
        wire,
        tuple(everyone),
        engine.worlds(),
        title,
    )
    return MultiHostRendezvous(job, everyone)
