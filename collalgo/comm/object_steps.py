"""The steps of calls on objects: before and after all ranks know the numbers of frames.

Each function pickles the objects of this rank, yields, and moves the frames.
"""

import operator
from collections.abc import Callable, Generator, Sequence
from functools import partial, reduce, wraps
from typing import Any, ParamSpec, cast

import numpy as np

from collalgo.base.arguments import wrong_type
from collalgo.comm.frame_exchange import FrameExchange
from collalgo.comm.object_frames import blocks_of, object_of, objects_of

P = ParamSpec("P")
Steps = Generator[FrameExchange, None, Any]


def pickled(steps: Callable[P, Steps]) -> Callable[P, Callable[[], Any]]:
    """Pickle the objects of a call at once; return a function that makes the call.

    A pickle may run code of the user, which may make other calls.
    """

    @wraps(steps)
    def prepare(*args: P.args, **named: P.kwargs) -> Callable[[], Any]:
        rest = steps(*args, **named)
        return partial(_made, next(rest), rest)

    return prepare


def _made(exchange: FrameExchange, steps: Steps) -> Any:
    """Make a call and return its result.

    In the background return None, and the Work gets the result.
    """

    def rest() -> Any:
        exchange.check()
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        raise AssertionError("these steps have one exchange of numbers")

    return None if exchange.begin(rest) else rest()


@pickled
def broadcast_object(
    obj: Any, comm: Any = None, root: int = 0, *, timeout: float | None = None
) -> Steps:
    """Of :func:`collalgo.broadcast_object`."""
    exchange = FrameExchange(comm, "broadcast_object", timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.pickle_objects([obj] if at_root else None)
    yield exchange
    [lengths] = exchange.lengths_of(root)
    [mine] = exchange.messages
    frames = mine if at_root else [np.empty(length, np.uint8) for length in lengths]
    for frame in frames:
        exchange.move("broadcast", frame, None if at_root else frame, root)
    return obj if at_root else object_of(frames)


@pickled
def allgather_objects(
    obj: Any, comm: Any = None, *, timeout: float | None = None
) -> Steps:
    """Of :func:`collalgo.allgather_objects`."""
    exchange = FrameExchange(comm, "allgather_objects", timeout)
    exchange.pickle_objects([obj])
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8)
        exchange.move("allgather", exchange.joined(place), found, counts=lengths)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, 0])


def _gathered(
    obj: Any, comm: Any, root: int, timeout: float | None, name: str
) -> Steps:
    """The objects of all ranks at the root, None elsewhere."""
    exchange = FrameExchange(comm, name, timeout)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.pickle_objects([obj])
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, 0].tolist()
        found = np.empty(sum(lengths), np.uint8) if at_root else None
        exchange.move("gather", exchange.joined(place), found, root, lengths)
        if found is not None:
            rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, 0]) if at_root else None


@pickled
def gather_objects(
    obj: Any, comm: Any = None, root: int = 0, *, timeout: float | None = None
) -> Steps:
    """Of :func:`collalgo.gather_objects`."""
    return (yield from _gathered(obj, comm, root, timeout, "gather_objects"))


@pickled
def reduce_objects(
    obj: Any,
    comm: Any = None,
    op: Callable[[Any, Any], Any] = operator.add,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Steps:
    """Of :func:`collalgo.reduce_objects`."""
    if not callable(op):
        advice = "a function of two objects, as operator.add"
        raise wrong_type("reduce_objects", "op", op, advice)
    objects = yield from _gathered(obj, comm, root, timeout, "reduce_objects")
    return None if objects is None else reduce(op, objects)


@pickled
def scatter_objects(
    objects: Sequence[Any] | None,
    comm: Any = None,
    root: int = 0,
    *,
    timeout: float | None = None,
) -> Steps:
    """Of :func:`collalgo.scatter_objects`."""
    exchange = FrameExchange(comm, "scatter_objects", timeout, per_rank=True)
    root = exchange.root_of(root)
    at_root = exchange.rank == root
    exchange.pickle_objects((() if objects is None else objects) if at_root else None)
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


@pickled
def alltoall_objects(
    objects: Sequence[Any], comm: Any = None, *, timeout: float | None = None
) -> Steps:
    """Of :func:`collalgo.alltoall_objects`."""
    exchange = FrameExchange(comm, "alltoall_objects", timeout, per_rank=True)
    given = cast("Sequence[Any] | None", objects)
    exchange.pickle_objects(() if given is None else given)  # None must not wait
    yield exchange
    rounds = []
    for place, table in enumerate(exchange.all_lengths()):
        lengths = table[:, exchange.rank].tolist()
        found = np.empty(sum(lengths), np.uint8)
        counts = table.ravel().tolist()
        exchange.move("alltoall", exchange.joined(place), found, counts=counts)
        rounds.append(blocks_of(found, lengths))
    return objects_of(rounds, exchange.numbers[:, exchange.rank])
