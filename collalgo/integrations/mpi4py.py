"""Communicators of mpi4py: their ranks meet over MPI.

Ranks of one host then use shared memory alone; between hosts MPI stays the engine.
"""

import atexit
import hashlib
import os
import secrets
import sys
import time
from typing import Any

from collalgo.bootstrap.cluster import come_up
from collalgo.bootstrap.interfaces import addresses
from collalgo.bootstrap.membership import Membership
from collalgo.bootstrap.rendezvous import HostOrigin
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
from collalgo.communicator import Communicator
from collalgo.connection import JOIN_TIMEOUT, Connection
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity
from collalgo.transport import mpi

#: Seconds that the other ranks have to say what has happened.
LAST_WORDS = 1.5

#: Bytes of what only the ranks of a communicator share.
TOKEN = 32

#: Bytes of what a rank says to all, which is shorter, and addresses that fit into them.
SAID, MOST_ADDRESSES = 1024, 32

_keyval: int | None = None


def world_communicator(launcher: str) -> Communicator:
    """The world of a process that an mpiexec has started."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise BootstrapError(
            f"this process was started by {launcher}, and to meet the other ranks it "
            f"needs mpi4py ({error}); install it with: pip install collalgo[mpi]"
        ) from None
    return communicator(MPI.COMM_WORLD)


def communicator(comm: Any) -> Communicator:
    """The communicator of the same ranks as one of mpi4py; all of them must call.

    It is made at the first call, and kept with the communicator of mpi4py until that
    is freed.

    """
    from mpi4py import MPI

    global _keyval  # noqa: PLW0603
    if _keyval is None:
        _keyval = MPI.Comm.Create_keyval(delete_fn=_forget)
    kept = comm.Get_attr(_keyval)
    if isinstance(kept, Communicator) and not kept.closed:
        return kept
    made = _meet(comm)
    comm.Set_attr(_keyval, made)
    return made


def _forget(_comm: Any, _keyval: int, kept: Communicator) -> None:
    kept.close()


def _meet(comm: Any) -> Communicator:
    """Find out who is on which host, and meet there or on all of them."""
    private = comm.Dup()
    tokens = _all_say(private, _host_token(private))
    names = list(dict.fromkeys(tokens))
    hosts = tuple(names.index(token) for token in tokens)
    if len(names) > 1:
        return Communicator(_across_hosts(private, hosts, tokens))
    try:
        job = _first_says(private, secrets.token_hex(TOKEN))
    finally:
        private.Free()
    everyone = range(comm.Get_size())
    return Communicator(HostOrigin(job).meet("", comm.Get_rank(), everyone))


def _across_hosts(comm: Any, hosts: tuple[int, ...], tokens: list[str]) -> Connection:
    """Meet over a store of rank 0, of which MPI tells the address and the secret."""
    rank = comm.Get_rank()
    server, invitation = None, ""
    if rank == 0:
        new = secrets.token_bytes(TOKEN)
        server = Server(new)
        # The name of a host and what MPI thinks of it may be made up, these are not.
        one_machine = len({tuple(token.split()[1:3]) for token in tokens}) == 1
        known = addresses(loopback=one_machine)[:MOST_ADDRESSES]
        invitation = f"{server.port} {new.hex()} {' '.join(known)}"
    port, hexadecimal, *where = _first_says(comm, invitation).split()
    membership = Membership(rank)
    secret = bytes.fromhex(hexadecimal)
    store = Client(where, int(port), secret, JOIN_TIMEOUT, membership.lost)
    atexit.register(_end, membership, store, server)
    name = hashlib.sha256(secret).hexdigest()
    return come_up(name, membership, store, hosts, mpi.wire(comm), mpi.worlds(comm))


def _end(membership: Membership, store: Client, server: Server | None) -> None:
    """Leave the job; if it has failed for want of a process, by MPI_Abort.

    MPI_Finalize would wait for the process for ever, here and on all other ranks.
    """
    membership.leave()
    store.close()
    if server is not None:
        server.close()
    if membership.bereaved:
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(LAST_WORDS)  # the launcher kills the others once this one ends
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(1)
        os._exit(1)


def _host_token(comm: Any) -> str:
    """The same on all processes of one host that can reach each other.

    What MPI takes for a host counts too: a launcher may make several of one machine.
    """
    from mpi4py import MPI

    near = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = _first_says(near, str(comm.Get_rank()))
    near.Free()
    return f"{identity()} {first}"


def _first_says(comm: Any, text: str) -> str:
    """What rank 0 has to say; nothing that MPI brings is unpickled."""
    said = bytearray(text.encode().ljust(SAID))
    comm.Bcast(said, root=0)
    return said.decode().rstrip()


def _all_say(comm: Any, text: str) -> list[str]:
    """What all ranks have to say, by rank."""
    said = bytearray(SAID * comm.Get_size())
    comm.Allgather(bytearray(text.encode().ljust(SAID)), said)
    return [said[i : i + SAID].decode().rstrip() for i in range(0, len(said), SAID)]
