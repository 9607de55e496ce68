"""The rendezvous of torch under launchers that do not set its variables: mpiexec, srun.

The ranks connect as by :func:`collalgo.init`; rank 0 then holds a store for torch.
"""

import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import numpy as np
import torch.distributed as dist

from collalgo.bootstrap.interfaces import addresses
from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.comm.world import init
from collalgo.errors import BootstrapError

#: Seconds in which the store must answer at one of its addresses.
ANSWER_SECONDS = 3.0

#: Bytes of the addresses and the port of the store.
LONGEST = 1024


class Launched:
    """The world of a launcher over which a rendezvous of torch has connected.

    Attributes
    ----------
    world
        The world.
    is_users
        Whether the user has made it before, and closes it.
    """

    world: Communicator | None = None
    is_users = False

    @classmethod
    def connect(cls, timeout: timedelta) -> Communicator:
        """Connect, unless the ranks are connected."""
        known = current.of_process.world
        cls.world = init(join_timeout=timeout.total_seconds())
        cls.is_users = known is cls.world
        return cls.world

    @classmethod
    def communicator(cls, rank: int, size: int) -> Communicator | None:
        """A communicator of all ranks, if these are the rank and size of this one."""
        world = cls.world
        if world is None or world.closed or (rank, size) != (world.rank, world.size):
            return None
        return world.dup() if cls.is_users else world


def rendezvous_by_launcher(
    timeout: timedelta,
) -> Iterator[tuple[dist.Store, int, int]]:
    """Connect as the launcher says: a store, the rank and the size, for torch."""
    world = Launched.connect(timeout)
    text, store = "", None
    if world.rank == 0:
        store = dist.TCPStore(
            "0.0.0.0",
            0,
            world.size,
            is_master=True,
            timeout=timeout,
            wait_for_workers=False,
        )
        one_host = len(set(world.hosts)) == 1
        found = ["127.0.0.1"] if one_host else addresses()
        text = " ".join([str(store.port), *found])
    port, *hosts = _broadcast(text, world).split()
    if store is None:
        host = _answering(hosts, int(port), world.rank)
        store = dist.TCPStore(host, int(port), world.size, timeout=timeout)
    yield store, world.rank, world.size
    raise RuntimeError("the ranks of a launcher connect once; init the group again")


def _broadcast(text: str, world: Communicator) -> str:
    """The text of rank 0."""
    words = np.zeros(LONGEST, np.uint8)
    mine = text.encode()[:LONGEST]
    words[: len(mine)] = np.frombuffer(mine, np.uint8)
    world.broadcast(words)
    return words.tobytes().rstrip(b"\0").decode()


def _answering(hosts: list[str], port: int, rank: int) -> str:
    """The first address at which the store of rank 0 answers."""
    for host in hosts:
        with suppress(OSError):
            socket.create_connection((host, port), ANSWER_SECONDS).close()
            return host
    raise BootstrapError(
        f"rank {rank} reaches the store of torch on rank 0 at none of its addresses "
        f"{', '.join(hosts)}, port {port}; check the firewall between the hosts, or "
        "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
        rank=rank,
    )
