"""The world of processes that have been told where the store of their job is."""

import atexit
import hashlib
import os
from collections.abc import Mapping
from typing import NamedTuple

from collalgo._kernels.ucx import UcxWire
from collalgo.bootstrap.cluster import come_up
from collalgo.bootstrap.identity import Identity
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.rendezvous import HostOrigin
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
from collalgo.connection import Connection
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity
from collalgo.transport import ucx


class Rendezvous(NamedTuple):
    """Where the store of a job may be, its port, and the secret of the job."""

    hosts: list[str]
    port: int
    secret: bytes


def meet_by_launcher(me: Identity, timeout: float) -> Connection:
    """Meet all processes of the job at the store of the launcher: my end of a world."""
    return _meet(me, told(os.environ), Membership(me.rank, keeper=None), timeout)


def meet_at(
    where: str, secret: str | None, rank: int, size: int, timeout: float
) -> Connection:
    """Meet all that have been told the same place, where rank 0 keeps the store."""
    given = (
        os.environ.get("COLLALGO_SECRET") if secret is None else secret.encode().hex()
    )
    place = told({"COLLALGO_STORE": where, "COLLALGO_SECRET": given or "?"})
    job = hashlib.sha256(f"{where} {given}".encode()).hexdigest()
    if rank == 0:
        try:
            atexit.register(Server(place.secret, "", place.port).close)
        except OSError as error:
            raise BootstrapError(
                f"rank 0 cannot listen at port {place.port}, which it was told "
                f"({error}); choose another",
                rank=0,
            ) from None
    me = Identity(rank, size, job, "init", by_store=True)
    return _meet(me, place, Membership(rank), timeout)


def _meet(
    me: Identity, place: Rendezvous, membership: Membership, timeout: float
) -> Connection:
    """Meet at a store; where all are on one host they need it no more.

    Between hosts they use UCX.
    """
    store = Client(place.hosts, place.port, place.secret, timeout, membership.lost)
    everyone = range(me.size)
    try:
        store.set(f"host/{me.rank}", identity().encode())
        names = [store.get(f"host/{rank}", timeout) for rank in everyone]
        hosts = tuple(list(dict.fromkeys(names)).index(name) for name in names)
        if len(set(hosts)) == 1:
            connection = HostOrigin(me.job).meet("", me.rank, everyone, timeout)
            store.close()
            return connection
        wire = ucx.wire(me.rank, me.size)
        store.set(f"ucx/{me.rank}", wire.address())
        wire.meet([store.get(f"ucx/{rank}", timeout) for rank in everyone])
    except BaseException:
        store.close()
        raise
    atexit.register(_end, membership, store, wire)
    return come_up(me.job, membership, store, hosts, wire, ucx.WORLDS, timeout)


def told(environment: Mapping[str, str]) -> Rendezvous:
    """Where the variables of a launcher say that the store is.

    Raises
    ------
    BootstrapError
        If the variables are not what a launcher sets.
    """
    where, _, port = environment.get("COLLALGO_STORE", "").rpartition(":")
    try:
        secret = bytes.fromhex(environment["COLLALGO_SECRET"])
        return Rendezvous(where.split(","), int(port), secret)
    except (KeyError, ValueError):
        raise BootstrapError(
            "the store must be HOST:PORT (COLLALGO_STORE; commas between several "
            "hosts), and the job needs a secret (COLLALGO_SECRET, as hexadecimal "
            "digits)"
        ) from None


def _end(membership: Membership, store: Client, wire: UcxWire) -> None:
    membership.leave()
    store.close()
    wire.close()
