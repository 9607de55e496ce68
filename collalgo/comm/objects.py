"""Calls on objects of Python, which move as pickles.

The receiver unpickles the message, which runs code that the sender chooses: all ranks
must trust each other.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from collalgo.base.arguments import wrong_type
from collalgo.comm.frame_exchange import FrameExchange
from collalgo.comm.object_frames import blocks_of, object_of, objects_of
from collalgo.comm.types import Communicator

if TYPE_CHECKING:
    import mpi4py.MPI


def broadcast_object(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Any:
    """Broadcast the object of the root to every rank.

    Parameters
    ----------
    obj
        At the root an object that can be pickled; elsewhere anything.
    comm
        The communicator.
    root
        The rank whose object it is.
    timeout
        Seconds of each of the calls that this one consists of.

    Returns
    -------
    object
        At the root ``obj``; elsewhere a copy, made by unpickling. Its large arrays
        arrive without a copy by the pickler.
    """
    exchange = FrameExchange(comm, "broadcast_object", timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.publish([obj] if at_root else None)
    [lengths] = exchange.lengths_of(root)
    [mine] = exchange.messages
    frames = mine if at_root else [np.empty(length, np.uint8) for length in lengths]
    for frame in frames:
        exchange.move("broadcast", frame, None if at_root else frame, root)
    return obj if at_root else object_of(frames)


def allgather_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    timeout: float | None = None,
) -> list[Any]:
    """Gather the objects of all ranks into a list at every rank."""
    exchange = FrameExchange(comm, "allgather_objects", timeout)
    exchange.publish([obj])
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8)
        exchange.move("allgather", exchange.joined(place), found, counts=lengths)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, 0])


def gather_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> list[Any] | None:
    """Gather the objects of all ranks into a list at the root.

    Parameters
    ----------
    obj
        An object that can be pickled.
    comm
        The communicator.
    root
        The rank that receives them.
    timeout
        See :func:`broadcast_object`.

    Returns
    -------
    list or None
        The objects by rank, made by unpickling, at the root; None elsewhere.
    """
    exchange = FrameExchange(comm, "gather_objects", timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.publish([obj])
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8) if at_root else None
        exchange.move("gather", exchange.joined(place), found, root, lengths)
        if found is not None:
            rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, 0]) if at_root else None


def reduce_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    op: Callable[[Any, Any], Any] = operator.add,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Any:
    """Combine the objects of all ranks at the root, in the order of the ranks.

    Parameters
    ----------
    obj
        An object that can be pickled.
    comm
        The communicator.
    op
        A function of two objects, called at the root only; by default their sum.
    root, timeout
        See :func:`gather_objects`.

    Returns
    -------
    object or None
        ``op(... op(op(x0, x1), x2) ...)`` at the root; None elsewhere.
    """
    if not callable(op):
        advice = "a function of two objects, as operator.add"
        raise wrong_type("reduce_objects", "op", op, advice)
    found = gather_objects(obj, comm, root, timeout=timeout)
    return None if found is None else reduce(op, found)


def scatter_objects(
    objects: Sequence[Any] | None,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Any:
    """Scatter: give every rank its object of the root's list.

    Parameters
    ----------
    objects
        At the root a list with an object for every rank; elsewhere anything.
    comm
        The communicator.
    root
        The rank whose list it is.
    timeout
        See :func:`broadcast_object`.

    Returns
    -------
    object
        The object of this rank, made by unpickling.
    """
    exchange = FrameExchange(comm, "scatter_objects", timeout, per_rank=True)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.publish((() if objects is None else objects) if at_root else None)
    received = []
    for place, counts in enumerate(exchange.lengths_of(root).T.tolist()):
        own = np.empty(counts[exchange.rank], np.uint8)
        if at_root:
            rows = exchange.joined(place)
            exchange.move("scatter", rows, None, root, counts)
            own[:] = blocks_of(rows, counts)[root]
        else:
            exchange.move("scatter", None, own, root, counts)
        received.append(own)
    return object_of(received[: int(exchange.numbers[root, exchange.rank])])


def alltoall_objects(
    objects: Sequence[Any],
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    timeout: float | None = None,
) -> list[Any]:
    """Exchange objects: the one at index i goes to rank i.

    Parameters
    ----------
    objects
        A list with an object for every rank.
    comm
        The communicator.
    timeout
        See :func:`broadcast_object`.

    Returns
    -------
    list
        The objects for this rank, by their senders, made by unpickling.
    """
    exchange = FrameExchange(comm, "alltoall_objects", timeout, per_rank=True)
    rounds = []
    given = cast("Sequence[Any] | None", objects)
    exchange.publish(() if given is None else given)  # None must not wait
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, exchange.rank].tolist()
        found = np.empty(sum(lengths), np.uint8)
        counts = table.ravel().tolist()
        exchange.move("alltoall", exchange.joined(place), found, counts=counts)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, exchange.rank])
