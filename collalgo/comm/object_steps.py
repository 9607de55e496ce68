"""The steps of calls on objects: before and after all ranks know the numbers of frames.

Each function announces the objects of this rank, yields, and moves the frames.
"""

from collections.abc import Callable, Generator, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from collalgo.comm.frame_exchange import FrameExchange
from collalgo.comm.object_frames import blocks_of, object_of, objects_of

Steps = Generator[FrameExchange, None, Any]


def made(steps: Steps) -> Any:
    """Make a call: its result; None in the background, where the end has the result."""
    exchange = next(steps)

    def rest() -> Any:
        exchange.check()
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        raise AssertionError("these steps have one exchange of numbers")

    return None if exchange.begin(rest) else rest()


def broadcast(obj: Any, comm: Any, root: int, timeout: float | None) -> Steps:
    """Of :func:`collalgo.broadcast_object`."""
    exchange = FrameExchange(comm, "broadcast_object", timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.announce([obj] if at_root else None)
    yield exchange
    [lengths] = exchange.lengths_of(root)
    [mine] = exchange.messages
    frames = mine if at_root else [np.empty(length, np.uint8) for length in lengths]
    for frame in frames:
        exchange.move("broadcast", frame, None if at_root else frame, root)
    return obj if at_root else object_of(frames)


def allgather(obj: Any, comm: Any, timeout: float | None) -> Steps:
    """Of :func:`collalgo.allgather_objects`."""
    exchange = FrameExchange(comm, "allgather_objects", timeout)
    exchange.announce([obj])
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8)
        exchange.move("allgather", exchange.joined(place), found, counts=lengths)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, 0])


def gather(
    obj: Any,
    comm: Any,
    root: int,
    timeout: float | None,
    op: Callable[[Any, Any], Any] | None = None,
) -> Steps:
    """Of :func:`collalgo.gather_objects`, and with an op of ``reduce_objects``."""
    name = "gather_objects" if op is None else "reduce_objects"
    exchange = FrameExchange(comm, name, timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.announce([obj])
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8) if at_root else None
        exchange.move("gather", exchange.joined(place), found, root, lengths)
        if found is not None:
            rounds.append(blocks_of(found, lengths))
    if not at_root:
        return None
    objects = objects_of(rounds, exchange.numbers[:, 0])
    return objects if op is None else reduce(op, objects)


def scatter(
    objects: Sequence[Any] | None, comm: Any, root: int, timeout: float | None
) -> Steps:
    """Of :func:`collalgo.scatter_objects`."""
    exchange = FrameExchange(comm, "scatter_objects", timeout, per_rank=True)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.announce((() if objects is None else objects) if at_root else None)
    yield exchange
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


def alltoall(objects: Sequence[Any], comm: Any, timeout: float | None) -> Steps:
    """Of :func:`collalgo.alltoall_objects`."""
    exchange = FrameExchange(comm, "alltoall_objects", timeout, per_rank=True)
    given = cast("Sequence[Any] | None", objects)
    exchange.announce(() if given is None else given)  # None must not wait
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, exchange.rank].tolist()
        found = np.empty(sum(lengths), np.uint8)
        counts = table.ravel().tolist()
        exchange.move("alltoall", exchange.joined(place), found, counts=counts)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, exchange.rank])
