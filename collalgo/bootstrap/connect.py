"""The world of processes that know who they are and how to hear of each other."""

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from weakref import finalize

from collalgo.bootstrap.context import Context
from collalgo.bootstrap.exchange import ExchangeGroup, StoreExchange
from collalgo.bootstrap.foreign_stores import KeyValueStore
from collalgo.bootstrap.identity import Identity, Means
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.multi_host import come_up
from collalgo.bootstrap.rendezvous import HostRendezvous
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
from collalgo.engine.transport.engine import Engine, asked_for
from collalgo.engine.transport.ucx import Ucx
from collalgo.errors import BootstrapError

#: Bytes of a secret that is made here.
TOKEN = 32

#: So many addresses of a host are told at most.
MOST_ADDRESSES = 32


class StoreAddress(NamedTuple):
    """Where the store of a job may be, its port, and the secret of the job."""

    hosts: list[str]
    port: int
    secret: bytes


def connect_at_store(me: Identity, engine: str | None, timeout: float) -> Context:
    """Meet all processes of the job at the store of the launcher: my end of a world."""
    membership = Membership(me.rank, store_rank=None)
    return _connect(me, told(os.environ), membership, engine, timeout)


def connect_at(
    where: str,
    secret: str | None,
    rank: int,
    size: int,
    engine: str | None,
    timeout: float,
) -> Context:
    """Meet all that have been told the same place, where rank 0 keeps the store."""
    given = (
        os.environ.get("COLLALGO_SECRET") if secret is None else secret.encode().hex()
    )
    place = told({"COLLALGO_STORE": where, "COLLALGO_SECRET": given or "?"})
    job = hashlib.sha256(f"{where} {given}".encode()).hexdigest()
    if rank == 0:
        try:
            _at_exit(Server(place.secret, "", place.port).close)
        except OSError as error:
            raise BootstrapError(
                f"rank 0 cannot listen at port {place.port}, which it was told "
                f"({error}); choose another",
                rank=0,
            ) from None
    me = Identity(rank, size, job, "init", Means.STORE)
    return _connect(me, place, Membership(rank), engine, timeout)


def connect_over(
    board: KeyValueStore, rank: int, size: int, engine: str | None, timeout: float
) -> Context:
    """Meet all that share a board of others."""
    return connect(
        StoreExchange(board, rank, size, timeout), without_mpi(engine), timeout
    )


def connect(exchange_group: ExchangeGroup, engine: Engine, timeout: float) -> Context:
    """Meet all that hear each other, where rank 0 tells of a store of its own.

    On one host they need none. What is said everybody knows who can hear it, the secret
    of the job included.
    """
    rank, size = exchange_group.rank, exchange_group.size
    said = exchange_group.allgather(f"{engine.kind} {engine.host()}")
    same_engine([each.split()[0] for each in said])
    hosts = _numbered(said)
    several = len(set(hosts)) > 1
    server, invitation = None, ""
    if rank == 0:
        secret = secrets.token_bytes(TOKEN)
        server = Server(secret) if several else None
        port = server.port if server else 0
        # The name of a host may be made up, the machine and its network are not.
        one_machine = len({tuple(each.split()[1:3]) for each in said}) == 1
        where = ",".join(addresses(loopback=one_machine)[:MOST_ADDRESSES])
        invitation = f"{where}:{port} {secret.hex()}"
    where, _, hexadecimal = exchange_group.broadcast(invitation).partition(" ")
    place = told({"COLLALGO_STORE": where, "COLLALGO_SECRET": hexadecimal})
    job = hashlib.sha256(place.secret).hexdigest()
    if not several:
        return HostRendezvous(job).connect("", rank, range(size), timeout)
    if server is not None:
        _at_exit(server.close)
    membership = Membership(rank)
    store = Client(place.hosts, place.port, place.secret, timeout, membership.lost)
    membership.begin(store)
    return _across(job, membership, store, hosts, engine, timeout)


def same_engine(kinds: Sequence[str]) -> None:
    """See whether all ranks are to use the same engine.

    Raises
    ------
    BootstrapError
        If not.
    """
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise BootstrapError(
            f"rank 0 is to use the engine {kinds[0]} and rank {other} {kinds[other]}; "
            "let COLLALGO_ENGINE be the same on all ranks"
        )


def without_mpi(engine: str | None) -> Engine:
    """The engine of ranks that no mpiexec has started.

    Raises
    ------
    BootstrapError
        If another is asked for.
    """
    if asked_for(engine) == "mpi":
        raise BootstrapError(
            "the engine mpi is asked for, but no mpiexec has started these ranks; use "
            "mpiexec or collalgo run --mpi"
        )
    return Ucx()


def _connect(
    me: Identity,
    place: StoreAddress,
    membership: Membership,
    engine: str | None,
    timeout: float,
) -> Context:
    """Meet at a store; where all are on one host they need it no more."""
    ours = without_mpi(engine)
    store = Client(place.hosts, place.port, place.secret, timeout, membership.lost)
    try:
        membership.begin(store)
        everyone = range(me.size)
        board = membership.joining(everyone)
        said = StoreExchange(board, me.rank, me.size, timeout).allgather(ours.host())
        hosts = _numbered(said)
        if len(set(hosts)) == 1:
            connection = HostRendezvous(me.job).connect("", me.rank, everyone, timeout)
            store.close()
            return connection
    except BaseException:
        store.close()
        raise
    return _across(me.job, membership, store, hosts, ours, timeout)


def _numbered(names: Sequence[str]) -> tuple[int, ...]:
    """A number for each name, the same for the same."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers[name] for name in names)


def _across(
    job: str,
    membership: Membership,
    store: Client,
    hosts: tuple[int, ...],
    engine: Engine,
    timeout: float,
) -> Context:
    """Come up on several hosts, with an engine between them."""
    try:
        board = membership.joining(range(len(hosts)))
        wire = engine.wire(board, membership.rank, len(hosts), timeout)
    except BaseException:
        store.close()
        raise
    _at_exit(_end, membership, store, engine)
    return come_up(job, membership, hosts, engine, wire, timeout)


def _at_exit(function: Callable[..., None], *args: object) -> None:
    """Call a function as the process ends, after all that is begun from now on has.

    Communicators end by finalizers, of which the latest come first. Their order with
    what atexit calls depends on who has made a finalizer first.
    """
    finalize(Engine, function, *args)


def _end(membership: Membership, store: Client, engine: Engine) -> None:
    membership.leave()
    store.close()
    engine.end(peer_died=membership.peer_died)


def told(environment: Mapping[str, str]) -> StoreAddress:
    """Where the variables of a launcher say that the store is.

    Raises
    ------
    BootstrapError
        If the variables are not what a launcher sets.
    """
    where, _, port = environment.get("COLLALGO_STORE", "").rpartition(":")
    try:
        secret = bytes.fromhex(environment["COLLALGO_SECRET"])
        return StoreAddress(where.split(","), int(port), secret)
    except (KeyError, ValueError):
        raise BootstrapError(
            "the store must be HOST:PORT (COLLALGO_STORE; commas between several "
            "hosts), and the job needs a secret (COLLALGO_SECRET, as hexadecimal "
            "digits)"
        ) from None
