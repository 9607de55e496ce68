"""The transfer of a state from the members that have it to the others."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo.comm.communicator import Communicator
from collalgo.comm.several import waitall
from collalgo.elastic import tree
from collalgo.elastic.snapshot import SYNC, Snapshot
from collalgo.elastic.tree import ArrayLeaf, Bytes
from collalgo.engine.call import Call

#: The tag of messages with parts of a state.
TAG = 0


def sources_of(owners: Sequence[int], size: int) -> Sequence[int]:
    """The members that send: all owners, unless more lack the state than have it.

    Then the first owner sends by a broadcast, in which those who have it pass it on.
    """
    return owners if size - len(owners) <= len(owners) else owners[:1]


def transfer(comm: Communicator, snapshot: Snapshot, sources: Sequence[int]) -> None:
    """Send a snapshot if this rank is one of the sources, else overwrite it.

    Several sources send a part each to each other member.
    """
    revision = _broadcast_skeleton(comm, snapshot, sources[0])
    elements = [tree.raw(array) for array in snapshot.arrays]
    if len(sources) == 1:
        for each in elements:
            _broadcast(comm, sources[0], each)
    else:
        _send_parts(comm, elements, sources)
    if comm.rank not in sources:
        for array, received in zip(snapshot.arrays, elements, strict=True):
            _to_device(array, received)
    snapshot.revision = revision


def _broadcast_skeleton(comm: Communicator, snapshot: Snapshot, root: int) -> int:
    """Give all members the skeleton of the root, with room for it: its revision."""
    skeleton = np.frombuffer(tree.encode(snapshot.skeleton), np.uint8)
    head = np.array([snapshot.revision, len(skeleton)], np.int64)
    _broadcast(comm, root, head)
    if comm.rank == root:
        skeleton = skeleton.copy()  # of bytes, which cannot be written
    else:
        skeleton = np.empty(int(head[1]), np.uint8)
    _broadcast(comm, root, skeleton)
    if comm.rank != root:
        found = tree.decode(skeleton.tobytes(), f"rank {root}")
        snapshot.make_room(found, snapshot.arrays)
    return int(head[0])


def _broadcast(comm: Communicator, root: int, array: NDArray[Any]) -> None:
    """Broadcast a contiguous array as a part of the call of the user."""
    call = Call("broadcast", array.dtype, array.size, root=root)
    target = None if comm.rank == root else array
    comm._runner.run_for(SYNC, call, array, target)


def _send_parts(
    comm: Communicator, elements: Sequence[Bytes], sources: Sequence[int]
) -> None:
    """Send, or receive, the part of each source."""
    total = sum(len(each) for each in elements)
    ends = [total * number // len(sources) for number in range(len(sources) + 1)]
    others = [rank for rank in range(comm.size) if rank not in sources]
    works: list[Message] = []
    for number, source in enumerate(sources):
        for piece in _pieces(elements, ends[number], ends[number + 1]):
            if comm.rank == source:
                works += [comm.isend(piece, other, TAG) for other in others]
            elif comm.rank in others:
                works.append(comm.irecv(piece, source, TAG))
    waitall(works)


def _pieces(elements: Sequence[Bytes], begin: int, end: int) -> Iterator[Bytes]:
    """The parts between two bytes of arrays that are taken as one."""
    first = 0
    for each in elements:
        piece = each[max(begin - first, 0) : max(end - first, 0)]
        if len(piece):
            yield piece
        first += len(each)


def _to_device(array: ArrayLeaf, elements: Bytes) -> None:
    """Copy what was received through the host to the device of an array."""
    if tree.is_tensor(array) and array.device.type != "cpu":
        import torch

        flat = torch.from_numpy(elements).view(array.dtype).reshape(array.shape)
        tree.copy_into(array, flat)
