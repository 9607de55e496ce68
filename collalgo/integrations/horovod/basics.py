"""The world of a script: rank and size, its begin and its end."""

import time
from threading import Event
from typing import Any

import numpy as np

from collalgo.base.environment import RENDEZVOUS
from collalgo.comm import world as job
from collalgo.comm.communicator import Communicator
from collalgo.comm.current import of_process, of_thread, resolve
from collalgo.comm.host_groups import cross_ranks, local_ranks

#: Set between :func:`init` and :func:`shutdown`.
_INITIALIZED = Event()


def init(comm: Any = None, process_sets: Any = None) -> None:
    """Join the world that the launcher describes.

    Parameters
    ----------
    comm
        Not supported: None.
    process_sets
        Not supported: None.

    Raises
    ------
    NotImplementedError
        If it gets an argument; the library has groups: ``comm.group(ranks)``.
    BootstrapError
        If the ranks cannot connect.

    Notes
    -----
    In an elastic job the members are known within :func:`elastic.run` only.
    """
    if comm is not None or process_sets is not None:
        raise NotImplementedError(
            "hvd.init: neither comm nor process_sets is supported; use a group of the "
            "library: comm.group(ranks)"
        )
    if not RENDEZVOUS.given():
        job.init()
    _INITIALIZED.set()


def shutdown() -> None:
    """Close the world."""
    _INITIALIZED.clear()
    found = of_thread.world or of_process.world
    if of_process.world is found:
        of_process.world = None
    if isinstance(found, Communicator):
        found.close()


def is_initialized() -> bool:
    """Whether :func:`init` was called, and :func:`shutdown` was not."""
    return _INITIALIZED.is_set()


def world() -> Communicator:
    """The communicator of the present members.

    Raises
    ------
    ValueError
        Before :func:`init`.
    RuntimeError
        In an elastic job outside of :func:`elastic.run`.
    """
    if not _INITIALIZED.is_set():
        raise ValueError("Horovod has not been initialized; call hvd.init() first")
    if of_thread.world is None and of_process.world is None:
        raise RuntimeError(
            "the members of an elastic job are known within hvd.elastic.run only; call "
            "this in the function that it runs"
        )
    found = resolve(None)
    assert isinstance(found, Communicator)
    return found


def rank() -> int:
    """The number of this rank in the world, from 0."""
    return world().rank


def size() -> int:
    """The number of ranks."""
    return world().size


def local_rank() -> int:
    """The number of this rank on its host, from 0."""
    comm = world()
    return local_ranks(comm.hosts, comm.rank).index(comm.rank)


def local_size() -> int:
    """The number of ranks on this host."""
    comm = world()
    return len(local_ranks(comm.hosts, comm.rank))


def cross_rank() -> int:
    """The number of this rank among those with its local rank, from 0."""
    comm = world()
    return cross_ranks(comm.hosts, comm.rank).index(comm.rank)


def cross_size() -> int:
    """The number of ranks with the local rank of this one, on all hosts."""
    comm = world()
    return len(cross_ranks(comm.hosts, comm.rank))


def is_homogeneous() -> bool:
    """Whether all hosts have equally many ranks."""
    hosts = world().hosts
    return len({hosts.count(host) for host in hosts}) == 1


def barrier(process_set: None = None) -> None:
    """Wait until all ranks have made this call."""
    world_of(process_set).barrier()


def join(device: int = -1) -> int:  # noqa: ARG001
    """Wait until all ranks have made this call.

    Parameters
    ----------
    device
        Of no effect.

    Returns
    -------
    int
        The rank that came last, by the clocks of the hosts.

    Raises
    ------
    MismatchError
        If a rank reduces further tensors while others wait here: they do not contribute
        zeros. Give all ranks equally many batches.
    """
    times = world().allgather(np.array([time.time()]))
    return int(np.argmax(np.asarray(times)))


def world_of(process_set: object) -> Communicator:
    """The communicator for the argument ``process_set``, which must be None."""
    if process_set is not None:
        raise NotImplementedError(
            "process_set is not supported; use a group of the library: "
            "comm.group(ranks)"
        )
    return world()
