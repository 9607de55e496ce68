"""Communicators of mpi4py: the ranks meet over MPI, and then use shared memory."""

import os
import secrets
from pathlib import Path
from typing import Any

from collalgo.bootstrap.rendezvous import HostOrigin
from collalgo.communicator import Communicator
from collalgo.errors import BootstrapError

#: Bytes of what tells one host, and one job on it, from another.
TOKEN = 32

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

    Raises
    ------
    BootstrapError
        If the ranks are on several hosts.
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
    rank, size = comm.Get_rank(), comm.Get_size()
    private = comm.Dup()
    try:
        hosts = bytearray(TOKEN * size)
        private.Allgather(bytearray(_host_token()), hosts)
        different = {bytes(hosts[i : i + TOKEN]) for i in range(0, len(hosts), TOKEN)}
        if len(different) > 1:
            raise BootstrapError(
                f"the {size} ranks of this communicator are on {len(different)} hosts; "
                "this version connects the ranks of one host",
                rank=rank,
            )
        job = bytearray(secrets.token_bytes(TOKEN))
        private.Bcast(job, root=0)
    finally:
        private.Free()
    return Communicator(HostOrigin(job.hex()).meet("", rank, size))


def _host_token() -> bytes:
    """The same on all processes of one host that can reach each other."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    network = os.stat("/proc/self/ns/net").st_ino
    return f"{boot[:20]}{network:012x}".encode()[:TOKEN].ljust(TOKEN)
