"""The calls of a communicator once more: in the background, and again and again."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from collalgo._kernels.comm.reducing import Calls
from collalgo._kernels.comm.work import Persistent, Work

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
Call = Callable[Concatenate[Any, P], Any]


def in_background(call: Call[P]) -> Callable[Concatenate[Any, P], Work]:
    """The same call, made in the background."""
    name = call.__name__

    def submit(self: Any, /, *args: P.args, **named: P.kwargs) -> Work:
        return cast("Work", self.submit(call, args, named))

    return _called(
        submit, f"{name}_async", f"Make the call :func:`{name}` in the background."
    )


def again_and_again(call: Call[P]) -> Callable[Concatenate[Any, P], Persistent]:
    """The same call, prepared once to be made many times."""
    name = call.__name__

    def prepare(self: Any, /, *args: P.args, **named: P.kwargs) -> Persistent:
        return cast("Persistent", self.submit(call, args, named, True))

    return _called(
        prepare,
        f"persistent_{name}",
        f"Prepare the call :func:`{name}` to be made many times.",
    )


def _called(function: F, name: str, doc: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


class Background(Calls):
    """The calls of a communicator in the foreground, the background, and persistent."""

    allreduce_async = in_background(Calls.allreduce)
    reduce_async = in_background(Calls.reduce)
    reduce_scatter_async = in_background(Calls.reduce_scatter)
    scan_async = in_background(Calls.scan)
    exscan_async = in_background(Calls.exscan)
    broadcast_async = in_background(Calls.broadcast)
    allgather_async = in_background(Calls.allgather)
    allgatherv_async = in_background(Calls.allgatherv)
    alltoall_async = in_background(Calls.alltoall)
    alltoallv_async = in_background(Calls.alltoallv)
    gather_async = in_background(Calls.gather)
    gatherv_async = in_background(Calls.gatherv)
    scatter_async = in_background(Calls.scatter)
    scatterv_async = in_background(Calls.scatterv)
    barrier_async = in_background(Calls.barrier)

    persistent_allreduce = again_and_again(Calls.allreduce)
    persistent_reduce = again_and_again(Calls.reduce)
    persistent_reduce_scatter = again_and_again(Calls.reduce_scatter)
    persistent_broadcast = again_and_again(Calls.broadcast)
    persistent_allgather = again_and_again(Calls.allgather)
    persistent_alltoall = again_and_again(Calls.alltoall)
    persistent_gather = again_and_again(Calls.gather)
    persistent_barrier = again_and_again(Calls.barrier)
