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
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.multi_host import MultiHostRendezvous, begin
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


def connect_at(where: str, arguments: JoinArguments) -> Context:
    """Connect all ranks that were given one address, where rank 0 keeps the store."""
    rank, _ = arguments.position
    secret = arguments.secret
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
    return connect_to_store(job, Membership(rank), arguments, place)


def connect_over(store: KeyValueStore, arguments: JoinArguments) -> Context:
    """Connect all ranks that share a key-value store of another system."""
    exchange = StoreExchange(store, *arguments.position, arguments.timeout)
    return connect(exchange, without_mpi(arguments.engine), arguments.timeout)


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
    rendezvous = _multi_host(job, membership, store, hosts, engine, timeout)
    return rendezvous.connect("", rank, range(size), timeout)


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


def connect_to_store(
    job: str,
    membership: Membership,
    arguments: JoinArguments,
    address: StoreAddress | None = None,
) -> Context:
    """Connect all ranks through the store of the job; on one host only to find out so.

    The address is by default what the variables of the launcher say.
    """
    (rank, size), timeout = arguments.position, arguments.timeout
    engine = without_mpi(arguments.engine)
    where = address or told(os.environ)
    store = Client(where.hosts, where.port, where.secret, timeout, membership.lost)
    try:
        membership.begin(store)
        exchange = StoreExchange(membership.joining(range(size)), rank, size, timeout)
        hosts = _numbered(exchange.allgather(engine.host()))
        if len(set(hosts)) == 1:
            context = HostRendezvous(job).connect("", rank, range(size), timeout)
            store.close()
            return context
    except BaseException:
        store.close()
        raise
    rendezvous = _multi_host(job, membership, store, hosts, engine, timeout)
    return rendezvous.connect("", rank, range(size), timeout)


def _numbered(names: Sequence[str]) -> tuple[int, ...]:
    """A number for each name, the same for the same."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers[name] for name in names)


def _multi_host(
    job: str,
    membership: Membership,
    store: Client,
    hosts: tuple[int, ...],
    engine: Engine,
    timeout: float,
) -> MultiHostRendezvous:
    """The rendezvous of ranks on several hosts, with an engine between them."""
    try:
        pending = membership.joining(range(len(hosts)))
        wire = engine.wire(pending, membership.rank, len(hosts), timeout)
    except BaseException:
        store.close()
        raise
    _at_exit(_end, membership, store, engine)
    return begin(job, membership, hosts, engine, wire)


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
