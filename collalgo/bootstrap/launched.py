"""The world of processes that have been told where the store of their job is."""

import atexit
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from collalgo._kernels.ucx import UcxWire
from collalgo.bootstrap.cluster import come_up
from collalgo.bootstrap.identity import Identity
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.rendezvous import HostOrigin
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
from collalgo.connection import Connection
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity
from collalgo.transport import ucx

#: Bytes of a secret that is made here.
TOKEN = 32


class Board(Protocol):
    """Where processes leave messages for each other, each under a key of its own."""

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key, as soon as it has one."""


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


def meet_over(board: Board, rank: int, size: int, timeout: float) -> Connection:
    """Meet all that share a board of others, where rank 0 tells of a store of its own.

    On one host they need none. What is on the board everybody knows who can read it,
    the secret of the job included.
    """
    names = _names(board, rank, size, timeout)
    hosts = _numbered(names)
    several = len(set(hosts)) > 1
    server = None
    if rank == 0:
        secret = secrets.token_bytes(TOKEN)
        server = Server(secret) if several else None
        port = server.port if server else 0
        # The name of a host may be made up, the machine and its network are not.
        one_machine = len({tuple(name.split()[-2:]) for name in names}) == 1
        where = ",".join(addresses(loopback=one_machine))
        board.set("invitation", f"{where}:{port} {secret.hex()}".encode())
    where, _, hexadecimal = board.get("invitation", timeout).decode().partition(" ")
    place = told({"COLLALGO_STORE": where, "COLLALGO_SECRET": hexadecimal})
    job = hashlib.sha256(place.secret).hexdigest()
    if not several:
        return HostOrigin(job).meet("", rank, range(size), timeout)
    if server is not None:
        atexit.register(server.close)
    membership = Membership(rank)
    store = Client(place.hosts, place.port, place.secret, timeout, membership.lost)
    return _across(job, membership, store, hosts, timeout)


def _meet(
    me: Identity, place: Rendezvous, membership: Membership, timeout: float
) -> Connection:
    """Meet at a store; where all are on one host they need it no more."""
    store = Client(place.hosts, place.port, place.secret, timeout, membership.lost)
    try:
        hosts = _numbered(_names(store, me.rank, me.size, timeout))
        if len(set(hosts)) == 1:
            everyone = range(me.size)
            connection = HostOrigin(me.job).meet("", me.rank, everyone, timeout)
            store.close()
            return connection
    except BaseException:
        store.close()
        raise
    return _across(me.job, membership, store, hosts, timeout)


def _names(board: Board, rank: int, size: int, timeout: float) -> list[str]:
    """What the host of each process calls itself."""
    board.set(f"host/{rank}", identity().encode())
    return [board.get(f"host/{other}", timeout).decode() for other in range(size)]


def _numbered(names: Sequence[str]) -> tuple[int, ...]:
    """A number for each name, the same for the same."""
    return tuple(list(dict.fromkeys(names)).index(name) for name in names)


def _across(
    job: str,
    membership: Membership,
    store: Client,
    hosts: tuple[int, ...],
    timeout: float,
) -> Connection:
    """Come up on several hosts, with UCX between them."""
    rank, size = membership.rank, len(hosts)
    try:
        wire = ucx.wire(rank, size)
        store.set(f"ucx/{rank}", wire.address())
        wire.meet([store.get(f"ucx/{other}", timeout) for other in range(size)])
    except BaseException:
        store.close()
        raise
    atexit.register(_end, membership, store, wire)
    return come_up(job, membership, store, hosts, wire, ucx.WORLDS, timeout)


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
