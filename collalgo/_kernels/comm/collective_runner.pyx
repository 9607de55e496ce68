# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The runner of all collectives, and the look-up of the runner of a call."""

from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.reducing cimport Reducing

from collalgo.comm.current import resolve


cdef class CollectiveRunner(Reducing):
    """Runs all collectives of one rank of a communicator.

    A class for each file of ``collalgo/comm/functions`` adds its collectives to those of
    the class before: :class:`CallRunner`, Sharing, Rooted, Reducing.
    """


cdef CollectiveRunner find_runner(comm):
    """The runner of a communicator of any type, also of mpi4py."""
    if not isinstance(comm, CommunicatorBase):
        comm = resolve(comm)
    runner = (<CommunicatorBase>comm)._runner
    return <CollectiveRunner?>(comm if runner is None else runner)
