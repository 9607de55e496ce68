"""Connect processes that name one address, where rank 0 holds the store of the job."""

import hashlib
from contextlib import closing, suppress

from collalgo.base.environment import SECRET, STORE
from collalgo.bootstrap.connect import (
    StoreAddress,
    at_exit,
    connect_to_store,
    store_address,
)
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.membership import Membership, announce_conflict
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
from collalgo.errors import BootstrapError

#: Seconds to look for the process that is rank 0 already.
TWIN_SECONDS = 1.0

#: Seconds for which rank 0 keeps the store after a failure, so that all ranks read why.
FAILURE_SECONDS = 1.0


def connect_at(where: str, arguments: JoinArguments) -> Context:
    """Connect all processes that name one address, where rank 0 holds the store."""
    rank, _ = arguments.position
    given = _secret(arguments)
    address = store_address({STORE.name: where, SECRET.name: given})
    job = hashlib.sha256(f"{where} {given}".encode()).hexdigest()
    server = _serve(address) if rank == 0 else None
    try:
        return connect_to_store(job, Membership(rank), arguments, address)
    except BaseException as error:
        if server is not None:
            _end_store(server, error, rank)
        raise


def _end_store(server: Server, error: BaseException, rank: int) -> None:
    """End the store after a failure; name processes that have another secret."""
    if isinstance(error, BootstrapError):
        server.drain(FAILURE_SECONDS)
    server.close()
    if isinstance(error, BootstrapError) and server.other_secrets:
        raise BootstrapError(
            f"{error}. Processes at {', '.join(sorted(server.other_secrets))} have "
            "tried to join with another secret; pass the same secret= on all ranks, or "
            "set COLLALGO_SECRET to the same",
            rank=rank,
            missing=error.missing,
        ) from None


def _secret(arguments: JoinArguments) -> str:
    """The secret of a job in hexadecimal digits, from the arguments or a variable."""
    if arguments.secret is not None:
        given = arguments.secret.encode(errors="surrogatepass").hex()
    else:
        SECRET.value()  # which is checked
        given = SECRET.given()
    if not given:
        rank, _ = arguments.position
        raise BootstrapError(
            f"rank {rank} has no secret of the job; pass secret= or set "
            "COLLALGO_SECRET (hexadecimal digits) to the same on all ranks",
            rank=rank,
        )
    return given


def _serve(address: StoreAddress) -> Server:
    """Hold the store of a job until the end of this process."""
    try:
        server = Server(address.secret, "", address.port)
    except OSError as error:
        _tell_twin(address)
        raise BootstrapError(
            f"rank 0 cannot listen at port {address.port} ({error}); start rank 0 "
            "once, or choose another port",
            rank=0,
        ) from None
    at_exit(server.close)
    return server


def _tell_twin(address: StoreAddress) -> None:
    """Announce another rank 0 to the ranks of the job of this store, if it is one."""
    with (
        suppress(BootstrapError, OSError),
        closing(Client(*address, TWIN_SECONDS)) as store,
    ):
        announce_conflict(store, 0)
