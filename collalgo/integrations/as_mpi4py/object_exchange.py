"""Bytes of any length between the ranks of a communicator, in one call if they are few.

Each rank contributes a record of one length, with the number of its bytes and, if they
fit, the bytes. Where some do not fit, which all ranks learn, a second call moves them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.memory import Bytes

#: The bytes of a record, and of its head: the number, and if a second call follows.
RECORD_BYTES, HEAD_BYTES = 256, 16
ROOM = RECORD_BYTES - HEAD_BYTES


def _record(data: bytes, *, follows: bool) -> Bytes:
    """The record of some bytes."""
    record = np.zeros(RECORD_BYTES, np.uint8)
    record[:HEAD_BYTES].view(np.int64)[:] = len(data), follows
    if len(data) <= ROOM:
        record[HEAD_BYTES : HEAD_BYTES + len(data)] = np.frombuffer(data, np.uint8)
    return record


def _heads(records: Bytes) -> list[list[int]]:
    """The number of bytes of each record, and if a second call follows."""
    heads = np.ascontiguousarray(records[..., :HEAD_BYTES]).view(np.int64)
    found: list[list[int]] = heads.reshape(-1, 2).tolist()
    return found


def _inside(record: Bytes, nbytes: int) -> Bytes:
    return record[HEAD_BYTES : HEAD_BYTES + nbytes]


def broadcast(engine: Any, data: bytes | None, root: int) -> Bytes:
    """The bytes of the root."""
    is_long = data is not None and len(data) > ROOM
    record = np.empty(RECORD_BYTES, np.uint8)
    if data is not None:
        record = _record(data, follows=is_long)
    engine.broadcast(record, root)
    [[nbytes, follows]] = _heads(record)
    if not follows:
        return _inside(record, nbytes)
    whole = np.empty(nbytes, np.uint8)
    if data is not None:
        whole = np.frombuffer(data, np.uint8)
    engine.broadcast(whole, root)
    return whole


def allgather(engine: Any, data: bytes) -> list[Bytes]:
    """The bytes of all ranks, at every rank."""
    records = engine.allgather(_record(data, follows=len(data) > ROOM))
    heads = _heads(records)
    if not any(follows for _, follows in heads):
        return _all_inside(records, heads)
    counts = [nbytes for nbytes, _ in heads]
    joined = engine.allgatherv(np.frombuffer(data, np.uint8), counts)
    return _parts(joined, counts)


def gather(engine: Any, data: bytes, root: int) -> list[Bytes] | None:
    """The bytes of all ranks, at the root."""
    records = engine.allgather(_record(data, follows=len(data) > ROOM))
    heads = _heads(records)
    is_root = engine.rank == root
    if not any(follows for _, follows in heads):
        found = _all_inside(records, heads)
        return found if is_root else None
    counts = [nbytes for nbytes, _ in heads]
    joined = engine.gatherv(np.frombuffer(data, np.uint8), counts, root)
    return _parts(joined, counts) if is_root else None


def scatter(engine: Any, data: Sequence[bytes] | None, root: int) -> Bytes:
    """The bytes of the root for this rank."""
    rows, record = None, np.empty(RECORD_BYTES, np.uint8)
    if data is not None:
        is_long = any(len(each) > ROOM for each in data)
        rows = np.stack([_record(each, follows=is_long) for each in data])
    engine.scatter(rows, root, out=record)
    [[nbytes, follows]] = _heads(record)
    if not follows:
        return _inside(record, nbytes)
    joined = None if data is None else np.frombuffer(b"".join(data), np.uint8)
    own = np.empty(nbytes, np.uint8)
    engine.scatterv(joined, root=root, out=own)
    return own


def _all_inside(records: Bytes, heads: list[list[int]]) -> list[Bytes]:
    pairs = zip(records, heads, strict=True)
    return [_inside(record, nbytes) for record, (nbytes, _) in pairs]


def _parts(joined: Bytes, counts: list[int]) -> list[Bytes]:
    ends = np.cumsum(counts)
    return [joined[end - count : end] for end, count in zip(ends, counts, strict=True)]
