"""The communicator of mpi4py that a benchmark in the same processes measures."""

from functools import cache
from typing import Any


@cache
def mpi_world(size: int) -> Any:
    """A communicator of mpi4py with the ranks of this job.

    Parameters
    ----------
    size
        The number of ranks of the job.

    Raises
    ------
    ValueError
        If MPI has another number of ranks, as where no mpiexec has started them.
    """
    from mpi4py import MPI

    if MPI.COMM_WORLD.size != size:
        raise ValueError(
            f"MPI cannot be measured: mpi4py has {MPI.COMM_WORLD.size} of the {size} "
            f"ranks; start all by its mpiexec: mpiexec -n {size} collalgo bench ..."
        )
    return MPI.COMM_WORLD.Dup()
