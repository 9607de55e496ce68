"""The engine between hosts that MPI is: whichever library mpi4py has loaded."""

import ctypes
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from collalgo._kernels.engine.transport.mpi import FUNCTIONS, MpiWire
from collalgo._kernels.engine.transport.transport import LANES
from collalgo.base.libraries import addresses_of
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity

#: Seconds that the other ranks have to say what has happened.
LAST_WORDS = 1.5

#: Where MPICH has the memory that the ranks of a host share.
MPICH_MEMORY = "/dev/shm/mpich_shm_"

#: What the files of MPI libraries are called.
LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_abi|mpi_ibm|mpicxx)\.so[.\d]*$")


class Mpi:
    """MPI, for the ranks of a communicator; see :class:`~.engine.Engine`.

    Parameters
    ----------
    comm
        A communicator of mpi4py that nobody else uses. Its errors are returned from now
        on.
    """

    kind = "mpi"

    def __init__(self, comm: Any):
        self._comm = comm

    def host(self) -> str:
        """What tells this host from others.

        What MPI takes for a host counts too: a launcher may make several of one
        machine.
        """
        from mpi4py import MPI

        near = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        first = np.array([self._comm.Get_rank()])
        near.Bcast(first)
        near.Free()
        return f"{identity()} {first[0]}"

    def wire(self, _store: Any, _rank: int, _size: int, _timeout: float) -> MpiWire:
        """The wire on the communicator.

        Raises
        ------
        BootstrapError
            If the library is not found in this process.
        """
        from mpi4py import MPI

        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        return MpiWire(_functions(), self._comm.handle, MPI.BYTE.handle, self._comm)

    def worlds(self) -> int:
        """How many worlds can be told apart by tags."""
        from mpi4py import MPI

        bound = self._comm.Get_attr(MPI.TAG_UB) or 32767
        return int((bound + 1) // LANES)

    def title(self) -> str:
        """The name and version of the library that mpi4py has loaded."""
        from mpi4py import MPI

        name, numbers = MPI.get_vendor()
        return f"MPI ({name} {'.'.join(map(str, numbers))})"

    def end(self, *, peer_died: bool) -> None:
        """Leave the rest to mpi4py, or, if a process is gone, end by MPI_Abort.

        MPI_Finalize would wait for it for ever, here and on all other ranks.
        """
        if peer_died:
            sys.stdout.flush()
            sys.stderr.flush()
            for path in _mapped():
                if path.startswith(MPICH_MEMORY):  # which else MPI_Finalize removes
                    Path(path).unlink(missing_ok=True)
            time.sleep(LAST_WORDS)  # the launcher kills the others once this one ends
            from mpi4py import MPI

            MPI.COMM_WORLD.Abort(1)
            os._exit(1)


def _mapped() -> set[str]:
    """The files that this process has mapped."""
    return {
        line.split(maxsplit=5)[5].strip()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.count(" ") >= 5 and "/" in line
    }


def _functions() -> dict[str, int]:
    """The addresses of the functions of the MPI that is loaded."""
    for path in sorted(path for path in _mapped() if LIBRARY.search(path)):
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if all(hasattr(library, name) for name in FUNCTIONS):
            return addresses_of(library, FUNCTIONS)
    raise BootstrapError(
        "mpi4py is loaded but no MPI library is to be found in this process; "
        "see whether it was linked in statically"
    )
