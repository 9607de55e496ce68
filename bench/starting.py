"""The barrier at which timed calls start."""

from collections.abc import Callable
from functools import partial

from collalgo import Communicator
from collalgo.engine.transport.waiting import cores


def starting_barrier(comm: Communicator) -> Callable[[], object]:
    """The barrier of our communicators before a timed call.

    If ranks share cores, a broadcast lasts until its root has been scheduled, so the
    first rank to leave the barrier matters. After the barriers of MPI a broadcast takes
    less than a time slice, so rank 0 seems to leave first there; here it does.
    """
    if comm.size > cores():
        return partial(comm.barrier, algorithm="linear")
    return comm.barrier
