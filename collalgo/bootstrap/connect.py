"""Connect the processes of a job by their ranks and the address of a store."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple
from weakref import finalize

from collalgo._kernels.engine.transport.wire import Wire
from collalgo.base.environment import SECRET, STORE
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.exchange import ExchangeGroup, StoreExchange
from collalgo.bootstrap.foreign_stores import TorchStore
from collalgo.bootstrap.former_world import FormerWorld, introduced
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.liveness_check import LivenessWatch, NoLivenessCheck
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.multi_host import MultiHostRendezvous, begin
from collalgo.bootstrap.rendezvous import HostRendezvous
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.protocol import ExchangeStore
from collalgo.bootstrap.store.server import Server
from collalgo.engine.transport.engine import Engine, added_engine, asked_for
from collalgo.engine.transport.ucx import Ucx
from collalgo.errors import BootstrapError

#: Bytes of a secret that rank 0 makes.
TOKEN = 32

#: The most addresses of a host that are tried for its store.
MOST_ADDRESSES = 32


class StoreAddress(NamedTuple):
    """The candidate hosts of the store of a job, its port, and the secret."""

    hosts: list[str]
    port: int
    secret: bytes


def connect_over(store: ExchangeStore, arguments: JoinArguments) -> Context:
    """Connect all processes that share a store of another program."""
    engine = without_mpi(arguments.engine, arguments.position[0])
    exchange = StoreExchange(store, *arguments.position, arguments.timeout)
    try:
        return connect(exchange, engine, arguments.timeout)
    except BaseException:
        if isinstance(store, TorchStore):
            store.take_back()
        raise


def connect(
    exchange_group: ExchangeGroup,
    engine: Engine,
    timeout: float,
    liveness: LivenessWatch | None = None,
    former: FormerWorld | None = None,
    name: str = "",
) -> Context:
    """Connect all processes of a group; on several hosts over a store of rank 0.

    Every process that can read the messages of the group learns the secret of the job.
    ``liveness`` detects the end of a process until all have connected. If all have the
    same ``former`` world, they are connected in it by a ``name``.
    """
    rank, size = exchange_group.rank, exchange_group.size
    identity = f"{engine.kind} {engine.host()}"
    identities, members = introduced(exchange_group, identity, former)
    same_engine([each.split()[0] for each in identities])
    if former is not None and former.can_connect(members):
        return former.connect(name, members, timeout, liveness or NoLivenessCheck())
    hosts = _numbered(identities)
    several = len(set(hosts)) > 1
    with _held_to_exit() as held:
        invitation = "" if rank else _invitation(identities, held, several=several)
        where, _, secret = exchange_group.broadcast(invitation).partition(" ")
        job = hashlib.sha256(bytes.fromhex(secret)).hexdigest()
        if not several:
            return HostRendezvous(job, liveness).connect("", rank, range(size), timeout)
        address = store_address({STORE.name: where, SECRET.name: secret})
        membership = Membership(rank, liveness=liveness)
        context = _across_hosts(job, address, membership, hosts, engine, timeout, held)
        context.end_job = partial(_end_former, membership, held)
        return context


def _across_hosts(
    job: str,
    address: StoreAddress,
    membership: Membership,
    hosts: tuple[int, ...],
    engine: Engine,
    timeout: float,
    held: ExitStack,
) -> Context:
    """Connect ranks on several hosts over a store at an address."""
    store = _enter_store(membership, address, timeout, held)
    rendezvous = _multi_host(job, membership, store, hosts, engine, timeout, held)
    context = rendezvous.connect("", membership.rank, range(len(hosts)), timeout)
    membership.liveness = NoLivenessCheck()  # the worlds detect failures themselves
    return context


def _enter_store(
    membership: Membership, address: StoreAddress, timeout: float, held: ExitStack
) -> Client:
    """Connect with the store of a job, and register this process there."""
    store = Client(*address, timeout, membership.lost, membership.liveness.check)
    held.callback(_leave, membership, store)
    membership.begin(store)
    return store


def _invitation(identities: Sequence[str], held: ExitStack, *, several: bool) -> str:
    """The secret of a job, with the address of a new store for several hosts."""
    secret = secrets.token_bytes(TOKEN)
    if not several:
        return f" {secret.hex()}"
    server = Server(secret)
    held.callback(server.close)
    return f"{_own_addresses(identities)}:{server.port} {secret.hex()}"


def _own_addresses(identities: Sequence[str]) -> str:
    """The addresses of this host at which the others can reach it."""
    # Users may set the name of a host, but not of the machine and its network.
    one_machine = len({tuple(each.split()[1:3]) for each in identities}) == 1
    return ",".join(addresses(loopback=one_machine)[:MOST_ADDRESSES])


def same_engine(kinds: Sequence[str]) -> None:
    """Check that all ranks use the same engine.

    Raises
    ------
    BootstrapError
        If not.
    """
    other = next((rank for rank, kind in enumerate(kinds) if kind != kinds[0]), None)
    if other is not None:
        raise BootstrapError(
            f"rank 0 uses the engine {kinds[0]} but rank {other} {kinds[other]}; set "
            "COLLALGO_ENGINE to the same on all ranks"
        )


def without_mpi(engine: str | None, rank: int) -> Engine:
    """The engine of ranks that were started without mpiexec.

    Raises
    ------
    BootstrapError
        If the engine mpi is requested, or the engine ucx, and it cannot be loaded.
    """
    asked = asked_for(engine)
    if asked == "mpi":
        raise BootstrapError(
            "the engine mpi is requested, but no mpiexec has started these ranks; "
            "use mpiexec or collalgo run --mpi"
        )
    if added := added_engine(asked):
        return added
    ucx = Ucx()
    if asked == "ucx":
        ucx.check(rank)
    return ucx


def connect_to_store(
    job: str,
    membership: Membership,
    arguments: JoinArguments,
    address: StoreAddress | None = None,
) -> Context:
    """Connect over a store, which ranks of one host do not need afterwards.

    The address is by default the one that the variables of the launcher give.
    """
    (rank, size), timeout = arguments.position, arguments.timeout
    engine = without_mpi(arguments.engine, rank)
    address = address or store_address(os.environ)
    # The rendezvous of a host is named after this, so other users must not guess it.
    job = hashlib.sha256(f"{job} {address.secret.hex()}".encode()).hexdigest()
    with _held_to_exit() as held:
        store = _enter_store(membership, address, timeout, held)
        joining = membership.joining(range(size))
        exchange = StoreExchange(joining, rank, size, timeout)
        hosts = _numbered(exchange.allgather(engine.host()))
        if len(set(hosts)) == 1:
            context = HostRendezvous(job).connect("", rank, range(size), timeout)
            held.close()
            return context
        rendezvous = _multi_host(job, membership, store, hosts, engine, timeout, held)
        return rendezvous.connect("", rank, range(size), timeout)


def _numbered(names: Sequence[str]) -> tuple[int, ...]:
    """A number for each name, equal for equal names."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return tuple(numbers[name] for name in names)


def _multi_host(
    job: str,
    membership: Membership,
    store: Client,
    hosts: tuple[int, ...],
    engine: Engine,
    timeout: float,
    held: ExitStack,
) -> MultiHostRendezvous:
    """The rendezvous of ranks on several hosts, with an engine between them."""
    joining = membership.joining(range(len(hosts)))
    wire = engine.wire(joining, membership.rank, len(hosts), timeout)
    held.callback(_end, membership, store, engine, wire)
    return begin(job, membership, hosts, engine, wire)


@contextmanager
def _held_to_exit() -> Iterator[ExitStack]:
    """The resources of a job, until the end of the process or a failure to connect."""
    held = ExitStack()
    at_exit(held.close)
    try:
        yield held
    except BaseException:
        held.close()
        raise


def at_exit(function: Callable[..., None], *args: object) -> None:
    """Call a function as the process ends, after communicators made later are closed.

    Communicators are closed by finalizers, which run in reverse order of their making.
    Functions of atexit may run before or after all finalizers. A forked child does not
    call it: what is released, as the sockets of an engine, is its parent's.
    """
    finalize(Engine, _in_process, os.getpid(), function, *args)


def _in_process(process: int, function: Callable[..., None], *args: object) -> None:
    if os.getpid() == process:
        function(*args)


def _leave(membership: Membership, store: Client) -> None:
    membership.leave()
    store.close()


def _end_former(membership: Membership, held: ExitStack) -> None:
    """Release the resources of a job whose processes have all left its worlds."""
    membership.all_have_left = True
    held.close()


def _end(membership: Membership, store: Client, engine: Engine, wire: Wire) -> None:
    """Leave the job, then end the engine: the others do not take that for a death."""
    _leave(membership, store)
    if membership.all_have_left:
        wire.all_have_left = True
    engine.end(peer_died=membership.peer_died, has_failed=membership.has_failed)


def store_address(environment: Mapping[str, str]) -> StoreAddress:
    """The address of the store in the variables that a launcher sets.

    Raises
    ------
    BootstrapError
        If a variable is missing or malformed.
    """
    found, secret = STORE.value(environment), SECRET.value(environment)
    if found is None or secret is None:
        raise BootstrapError(
            f"a job over a store needs its address, HOST:PORT ({STORE.name}; commas "
            f"between several hosts), and its secret ({SECRET.name}, as hexadecimal "
            "digits)"
        )
    hosts, port = found
    return StoreAddress(hosts, port, secret)
