"""Calls on objects of Python, which move as pickles.

In the background the pickle is made at once, but arrays of 64 KiB or more in the
object are read until the call is done: do not change them before. Received objects are
unpickled at the end of the call, by the thread that runs it.

The receiver unpickles the message, which runs code that the sender chooses: all ranks
must trust each other.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from collalgo.comm import object_steps
from collalgo.comm.background import in_background
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
    return object_steps.broadcast_object(obj, comm, root, timeout=timeout)()


broadcast_object_async = in_background(broadcast_object, object_steps.broadcast_object)


def allgather_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    timeout: float | None = None,
) -> list[Any]:
    """Gather the objects of all ranks into a list at every rank."""
    call = object_steps.allgather_objects(obj, comm, timeout=timeout)
    found: list[Any] = call()
    return found


allgather_objects_async = in_background(
    allgather_objects, object_steps.allgather_objects
)


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
    call = object_steps.gather_objects(obj, comm, root, timeout=timeout)
    found: list[Any] | None = call()
    return found


gather_objects_async = in_background(gather_objects, object_steps.gather_objects)


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
    return object_steps.reduce_objects(obj, comm, op, root, timeout=timeout)()


reduce_objects_async = in_background(reduce_objects, object_steps.reduce_objects)


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
    return object_steps.scatter_objects(objects, comm, root, timeout=timeout)()


scatter_objects_async = in_background(scatter_objects, object_steps.scatter_objects)


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
    call = object_steps.alltoall_objects(objects, comm, timeout=timeout)
    found: list[Any] = call()
    return found


alltoall_objects_async = in_background(alltoall_objects, object_steps.alltoall_objects)
