"""The collectives in the background: they give a :class:`collalgo.Work` at once."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, cast

from collalgo._kernels.comm.work import Work
from collalgo.comm.functions import reducing, rooted, sharing
from collalgo.comm.world import resolve

P = ParamSpec("P")


def _in_background(function: Callable[P, Any]) -> Callable[P, Work]:
    """The same function, whose call is made in the background."""
    name = f"{function.__name__}_async"

    @wraps(function)
    def submit(buf: Any, comm: Any = None, *args: Any, **named: Any) -> Work:
        return cast("Work", getattr(resolve(comm), name)(buf, *args, **named))

    submit.__name__ = submit.__qualname__ = name
    submit.__doc__ = (
        f"Make the call :func:`{function.__name__}` in the background.\n\n"
        "Returns\n-------\nWork\n"
        "    Whose ``wait()`` gives what the call returns. The arrays must not be\n"
        "    touched before."
    )
    return cast("Callable[P, Work]", submit)


allreduce_async = _in_background(reducing.allreduce)
reduce_async = _in_background(reducing.reduce)
reduce_scatter_async = _in_background(reducing.reduce_scatter)
scan_async = _in_background(reducing.scan)
exscan_async = _in_background(reducing.exscan)
broadcast_async = _in_background(sharing.broadcast)
allgather_async = _in_background(sharing.allgather)
allgatherv_async = _in_background(sharing.allgatherv)
alltoall_async = _in_background(sharing.alltoall)
alltoallv_async = _in_background(sharing.alltoallv)
gather_async = _in_background(rooted.gather)
gatherv_async = _in_background(rooted.gatherv)
scatter_async = _in_background(rooted.scatter)
scatterv_async = _in_background(rooted.scatterv)


def barrier_async(
    comm: Any = None, *, algorithm: Any = None, timeout: float | None = None
) -> Work:
    """Make the call :func:`barrier` in the background."""
    return resolve(comm).barrier_async(algorithm=algorithm, timeout=timeout)
