"""The transfer of a state from the members that have it to the others."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.transport.transport import PART_OF_LAST
from collalgo.comm.communicator import Communicator
from collalgo.elastic.leaves import ArrayLeaf, Bytes, copy_into, is_tensor, raw
from collalgo.elastic.snapshot import Snapshot
from collalgo.elastic.tree import decode, encode
from collalgo.engine.call import Call

#: The call in which members send each other their states.
SYNC = "sync"

#: Members that broadcast a part of a state, at most.
MOST_SOURCES = 8

#: The bytes of a part, at least.
LEAST_PART = 4 << 20


def transfer(comm: Communicator, snapshot: Snapshot, owners: Sequence[int]) -> None:
    """Broadcast a snapshot from its owners to all; the others overwrite theirs.

    Owners broadcast a part each, one after the other; they receive what they have.
    """
    revision = _broadcast_skeleton(comm, snapshot, owners)
    elements = [raw(array) for array in snapshot.arrays]
    total = sum(map(len, elements))
    count = max(min(total // LEAST_PART, len(owners), MOST_SOURCES), 1)
    for number, source in enumerate(owners[:count]):
        begin, end = total * number // count, total * (number + 1) // count
        for piece in _pieces(elements, begin, end):
            _broadcast(comm, source, piece)
    if comm.rank not in owners:
        for array, received in zip(snapshot.arrays, elements, strict=True):
            _to_device(array, received)
    snapshot.revision = revision


def _broadcast_skeleton(
    comm: Communicator, snapshot: Snapshot, owners: Sequence[int]
) -> int:
    """Give all members the skeleton of the owners, with room for it: its revision."""
    root = owners[0]
    skeleton = np.frombuffer(encode(snapshot.skeleton), np.uint8)
    head = np.array([snapshot.revision, len(skeleton)], np.int64)
    _broadcast(comm, root, head)
    if comm.rank == root:
        skeleton = skeleton.copy()  # of bytes, which cannot be written
    else:
        skeleton = np.empty(int(head[1]), np.uint8)
    _broadcast(comm, root, skeleton)
    if comm.rank not in owners:
        found = decode(skeleton.tobytes(), f"rank {root}")
        snapshot.make_room(found, snapshot.arrays)
    return int(head[0])


def _broadcast(comm: Communicator, root: int, array: NDArray[Any]) -> None:
    """Broadcast a contiguous array within the call of the user."""
    call = Call("broadcast", array.dtype, array.size, root=root)
    target = None if comm.rank == root else array
    comm._runner.run_for(SYNC, call, array, target, counted=PART_OF_LAST)


def _pieces(elements: Sequence[Bytes], begin: int, end: int) -> Iterator[Bytes]:
    """The parts between two bytes of arrays that are taken as one."""
    first = 0
    for each in elements:
        piece = each[max(begin - first, 0) : max(end - first, 0)]
        if len(piece):
            yield piece
        first += len(each)


def _to_device(array: ArrayLeaf, elements: Bytes) -> None:
    """Copy data received through the host to the device of an array."""
    if is_tensor(array) and array.device.type != "cpu":
        import torch

        flat = torch.from_numpy(elements).view(array.dtype).reshape(array.shape)
        copy_into(array, flat)
