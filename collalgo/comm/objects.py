"""Calls on objects of Python, which move as pickles.

The receiver unpickles what it gets, which runs code that the sender chooses: all ranks
must trust each other.
"""

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from collalgo.base.integers import rank_of
from collalgo.comm.current import runner_of
from collalgo.comm.functions.rooted import gatherv, scatterv
from collalgo.comm.functions.sharing import allgatherv, alltoallv, broadcast
from collalgo.comm.object_frames import (
    Frame,
    Frames,
    blocks_of,
    frame_at,
    frames_of,
    object_of,
    objects_of,
)
from collalgo.comm.types import Communicator

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner

#: The number of frames that a rank passes whose object cannot be pickled.
UNPICKLED = -1

#: The calls that take an object for every rank.
PER_RANK = ("scatter_objects", "alltoall_objects")


def broadcast_object(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Any:
    """Give every rank the object of the root.

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
    at_root, call = _is_root(comm, root, "broadcast_object"), "broadcast_object"
    [mine], numbers = _pickled([obj], comm, call, timeout, at_root)
    [lengths] = _lengths_of_root([mine], numbers, comm, root, timeout)
    frames = mine if at_root else [np.empty(length, np.uint8) for length in lengths]
    for frame in frames:
        broadcast(frame, comm, root, timeout=timeout)
    return obj if at_root else object_of(frames)


def allgather_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    timeout: float | None = None,
) -> list[Any]:
    """List the objects of all ranks, at every rank; see :func:`gather_objects`."""
    call = "allgather_objects"
    [mine], numbers = _pickled([obj], comm, call, timeout)
    rounds = [
        blocks_of(allgatherv(frame, comm, lengths, timeout=timeout), lengths)
        for frame, lengths in _rounds(mine, comm, numbers, call, timeout)
    ]
    return objects_of(rounds, numbers[:, 0])


def gather_objects(
    obj: Any,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> list[Any] | None:
    """List the objects of all ranks at the root.

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
    at_root, call = _is_root(comm, root, "gather_objects"), "gather_objects"
    [mine], numbers = _pickled([obj], comm, call, timeout)
    rounds = []
    for frame, lengths in _rounds(mine, comm, numbers, call, timeout):
        found = gatherv(frame, comm, lengths, root, timeout=timeout)
        if at_root:
            rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, numbers[:, 0]) if at_root else None


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
    found = gather_objects(obj, comm, root, timeout=timeout)
    return None if found is None else reduce(op, found)


def scatter_objects(
    objects: Sequence[Any] | None,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Any:
    """Give every rank its object of the list of the root.

    Parameters
    ----------
    objects
        At the root an object for every rank; elsewhere anything.
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
    at_root, call = _is_root(comm, root, "scatter_objects"), "scatter_objects"
    messages, numbers = _pickled(objects, comm, call, timeout, at_root)
    lengths = _lengths_of_root(messages, numbers, comm, root, timeout)
    rank, received = _runner(comm).rank, []
    for place, counts in enumerate(lengths.T.tolist()):
        own = np.empty(counts[rank], np.uint8)
        rows = _joined(messages, place) if at_root else None
        scatterv(rows, comm, counts, root, out=own, timeout=timeout)
        received.append(own)
    return object_of(received[: int(numbers[root, rank])])


def alltoall_objects(
    objects: Sequence[Any],
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    timeout: float | None = None,
) -> list[Any]:
    """Swap objects: the one at place i goes to rank i.

    Parameters
    ----------
    objects
        An object for every rank.
    comm
        The communicator.
    timeout
        See :func:`broadcast_object`.

    Returns
    -------
    list
        The objects for this rank, by their senders, made by unpickling.
    """
    call = "alltoall_objects"
    messages, numbers = _pickled(objects, comm, call, timeout)
    lengths = _all_lengths(messages, numbers, comm, call, timeout)
    rank, rounds = _runner(comm).rank, []
    for place, table in enumerate(lengths):
        joined = _joined(messages, place)
        found = alltoallv(joined, comm, table, timeout=timeout)
        rounds.append(blocks_of(found, table[:, rank].tolist()))
    return objects_of(rounds, numbers[:, rank])


def _runner(comm: Any) -> "Runner":
    return cast("Runner", runner_of(comm))


def _is_root(comm: Any, root: int, call: str) -> bool:
    """Whether this rank is the root, after a check that there is one."""
    runner = _runner(comm)
    return runner.rank == rank_of(root, "root", call, runner.size)


def _pickled(
    objects: Sequence[Any] | None,
    comm: Any,
    call: str,
    timeout: float | None,
    passes: bool = True,
) -> tuple[list[Frames], NDArray[np.int64]]:
    """The frames of my objects, and the numbers of frames of all objects of all ranks.

    A rank that passes none has messages without frames. An object that cannot be
    pickled is an error on every rank.
    """
    runner = _runner(comm)
    width = runner.size if call in PER_RANK else 1
    numbers, failure = np.zeros(width, np.int64), None
    messages: list[Frames] = [[]] * width
    try:
        if passes:
            messages = [frames_of(obj) for obj in _checked(objects, width, call)]
            numbers[:] = [len(frames) for frames in messages]
    except Exception as error:
        failure, numbers[:] = error, UNPICKLED
    everyone = runner.exchange(numbers, call, timeout)
    if failure is not None:
        raise failure
    failed = np.flatnonzero(everyone.min(axis=1) == UNPICKLED)
    if len(failed):
        raise ValueError(
            f"{call}: rank {failed[0]} passed no valid objects; its error says why"
        )
    return messages, everyone


def _checked(objects: Sequence[Any] | None, width: int, call: str) -> Sequence[Any]:
    objects = () if objects is None else objects
    if len(objects) != width:
        raise ValueError(
            f"{call}: got {len(objects)} objects for {width} ranks; pass one for each"
        )
    return objects


def _lengths(messages: Sequence[Frames], most: int) -> NDArray[np.int64]:
    """The bytes of the frames of each message by place, 0 behind its last."""
    places = range(most)
    return np.array(
        [[len(frame_at(frames, place)) for place in places] for frames in messages],
        np.int64,
    )


def _lengths_of_root(
    messages: Sequence[Frames],
    numbers: NDArray[np.int64],
    comm: Any,
    root: int,
    timeout: float | None,
) -> NDArray[np.int64]:
    """The bytes of the frames of each message of the root, by place."""
    lengths = _lengths(messages, int(numbers[root].max()))
    broadcast(lengths, comm, root, timeout=timeout)
    return lengths


def _all_lengths(
    messages: Sequence[Frames],
    numbers: NDArray[np.int64],
    comm: Any,
    call: str,
    timeout: float | None,
) -> NDArray[np.int64]:
    """The bytes of the frames at a place of all messages of all ranks.

    Its axes are the place, the rank, and the message of that rank.
    """
    mine = _lengths(messages, int(numbers.max()))
    found = _runner(comm).exchange(mine.ravel(), call, timeout)
    return np.moveaxis(found.reshape(-1, *mine.shape), 2, 0)


def _joined(messages: Sequence[Frames], place: int) -> Frame:
    """The frames of all messages at a place, one after the other."""
    return np.concatenate([frame_at(frames, place) for frames in messages])


def _rounds(
    mine: Frames,
    comm: Any,
    numbers: NDArray[np.int64],
    call: str,
    timeout: float | None,
) -> list[tuple[Frame, list[int]]]:
    """My frames, each with the lengths of the frames of all ranks at its place."""
    lengths = _all_lengths([mine], numbers, comm, call, timeout)
    return [
        (frame_at(mine, place), lengths[place, :, 0].tolist())
        for place in range(len(lengths))
    ]
