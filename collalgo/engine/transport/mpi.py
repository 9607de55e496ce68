"""MPI as the engine between hosts: the library that mpi4py has loaded."""

import ctypes
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from collalgo._kernels.engine.transport.mpi import FUNCTIONS, MpiWire
from collalgo._kernels.engine.transport.network import TAGS
from collalgo.base.libraries import addresses_of
from collalgo.engine.transport.engine import CUDA_AWARE, takes_devices
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity

#: Seconds that the other ranks have to report the failure.
LAST_WORDS = 1.5

#: The files of the memory that MPICH shares between the ranks of a host.
MPICH_MEMORY = "/dev/shm/mpich_shm_"

#: ``MPIX_GPU_SUPPORT_CUDA`` of MPICH's ``mpi.h``.
MPICH_CUDA = 0

#: The bytes of the shortest, the longest and the longest staged message that Open MPI
#: carries fast over TCP. It sends up to 64 KiB at once; of a longer message it copies
#: 192 KiB, and waits for an answer before the rest. So packets of 32 KiB are faster up
#: to 128 KiB, and 8 MiB are faster than eight parts, although these would be reduced
#: while the next ones arrive.
OPEN_MPI, OPEN_MPI_CARRIES = "Open MPI", ((128 << 10) + 1, 1 << 30, 1 << 23)

#: The file names of MPI libraries.
LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_abi|mpi_ibm|mpicxx)\.so[.\d]*$")


class Mpi:
    """MPI, for the ranks of a communicator; see :class:`~.engine.Engine`.

    Parameters
    ----------
    comm
        An mpi4py communicator that nothing else uses. Its error handler is set to
        return errors.
    """

    kind = "mpi"

    def __init__(self, comm: Any):
        self._comm = comm

    def host(self) -> str:
        """The identity of this host.

        It includes MPI's own idea of a host, as a launcher may divide one machine into
        several.
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
            If the library is not found in this process, or this thread may not call it.
        """
        from mpi4py import MPI

        level = thread_level()
        if level in {"single", "funneled"} and not MPI.Is_thread_main():
            raise BootstrapError(
                f"MPI was initialised with MPI_THREAD_{level.upper()}, for calls from "
                "its main thread only; connect in that thread, or set "
                "mpi4py.rc.thread_level = 'multiple' before mpi4py.MPI is imported"
            )
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        handles = self._comm.handle, MPI.BYTE.handle
        probed = MPI.ANY_SOURCE, MPI.ANY_TAG, MPI.COMM_SELF.handle
        wire = MpiWire(_functions(), *handles, probed, self._comm, level)
        wire.is_cuda_aware = takes_devices()
        if MPI.get_vendor()[0] == OPEN_MPI:
            wire.shortest, wire.longest, wire.longest_staged = OPEN_MPI_CARRIES
        return wire

    def worlds(self) -> int:
        """The number of worlds that tags can distinguish."""
        from mpi4py import MPI

        bound = self._comm.Get_attr(MPI.TAG_UB) or 32767
        return int((bound + 1) // TAGS)

    def title(self) -> str:
        """The name and version of the library that mpi4py has loaded."""
        from mpi4py import MPI

        name, numbers = MPI.get_vendor()
        title = f"MPI ({name} {'.'.join(map(str, numbers))})"
        return title + CUDA_AWARE * is_cuda_aware(_library())

    def end(self, *, peer_died: bool, has_failed: bool) -> None:  # noqa: ARG002
        """Leave the end to mpi4py or, if a peer has died, call MPI_Abort.

        MPI_Finalize would wait for the peer without end, here and on all other ranks.
        """
        if peer_died:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            time.sleep(LAST_WORDS)  # the launcher kills the others once this rank ends
            from mpi4py import MPI

            MPI.COMM_WORLD.Abort(1)
            os._exit(1)


def thread_level() -> str:
    """The thread level that MPI provides: ``single`` to ``multiple``."""
    from mpi4py import MPI

    levels = ("single", "funneled", "serialized", "multiple")
    by_number = {getattr(MPI, f"THREAD_{level.upper()}"): level for level in levels}
    return by_number[MPI.Query_thread()]


def unlink_mpich_memory() -> None:
    """Unlink the files of the memory that MPICH shares between the ranks of this host.

    All of them have mapped it once MPI is initialised. MPI_Finalize would unlink it,
    but is not reached when a rank is killed.
    """
    for path in _mapped():
        if path.startswith(MPICH_MEMORY):
            Path(path).unlink(missing_ok=True)


def _mapped() -> set[str]:
    """The files that this process has mapped."""
    return {
        line.split(maxsplit=5)[5].strip()
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.count(" ") >= 5 and "/" in line
    }


def is_cuda_aware(library: Any) -> bool:
    """Whether an MPI library sends arrays on CUDA devices itself.

    Open MPI reports it by ``MPIX_Query_cuda_support`` (``mpi-ext.h``), MPICH by
    ``MPIX_GPU_query_support``.
    """
    if hasattr(library, "MPIX_Query_cuda_support"):
        return bool(library.MPIX_Query_cuda_support())
    if hasattr(library, "MPIX_GPU_query_support"):
        found = ctypes.c_int(0)
        error = library.MPIX_GPU_query_support(MPICH_CUDA, ctypes.byref(found))
        return error == 0 and bool(found.value)
    return False


def _functions() -> dict[str, int]:
    """The addresses of the functions of the loaded MPI library."""
    return addresses_of(_library(), FUNCTIONS)


def _library() -> ctypes.CDLL:
    """The MPI library that this process has loaded."""
    for path in sorted(path for path in _mapped() if LIBRARY.search(path)):
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        if all(hasattr(library, name) for name in FUNCTIONS):
            return library
    raise BootstrapError(
        "mpi4py is loaded but no MPI library was found in this process; check whether "
        "mpi4py is linked to it statically"
    )
