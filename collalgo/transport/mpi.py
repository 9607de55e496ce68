"""The engine between hosts that MPI is: whichever library mpi4py has loaded."""

import ctypes
import os
import re
from pathlib import Path
from typing import Any

from collalgo._kernels.mpi import FUNCTIONS, MpiWire
from collalgo._kernels.transport import LANES
from collalgo.errors import BootstrapError
from collalgo.transport.libraries import addresses_of

#: What the files of MPI libraries are called.
LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_abi|mpi_ibm|mpicxx)\.so[.\d]*$")


def wire(comm: Any) -> MpiWire:
    """The wire on a communicator of mpi4py that nobody else uses.

    Parameters
    ----------
    comm
        Its errors are returned from now on.

    Raises
    ------
    BootstrapError
        If the library is not found in this process.
    """
    from mpi4py import MPI

    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return MpiWire(_functions(), comm.handle, MPI.BYTE.handle, comm)


def worlds(comm: Any) -> int:
    """How many worlds the tags of a communicator can tell apart."""
    from mpi4py import MPI

    bound = comm.Get_attr(MPI.TAG_UB) or 32767
    return int((bound + 1) // LANES)


def _functions() -> dict[str, int]:
    """The addresses of the functions of the MPI that is loaded."""
    mapped = {
        line.split(maxsplit=5)[5].strip()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.count(" ") >= 5 and "/" in line
    }
    for path in sorted(path for path in mapped if LIBRARY.search(path)):
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if all(hasattr(library, name) for name in FUNCTIONS):
            return addresses_of(library, FUNCTIONS)
    raise BootstrapError(
        "mpi4py is loaded but no MPI library is to be found in this process; "
        "see whether it was linked in statically"
    )
