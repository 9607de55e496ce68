"""Topology-aware collective communication: algorithms written once, as schedules.

>>> import collalgo
>>> import numpy as np
>>> collalgo.threads(lambda comm: collalgo.allreduce(np.ones(2), comm), size=4)[0]
array([4., 4.])

What all collectives have in common
-----------------------------------
Arrays are NumPy arrays or anything with the buffer protocol or DLPack, in the memory
of the host. Results go into the first array unless ``out=`` is given; arrays that are
not contiguous are packed and unpacked. ``comm`` is a :class:`Communicator`, one of
mpi4py, or None for the world of :func:`init`. ``algorithm`` is None for the cheapest,
a name, which may give parameters as in ``"k_nomial(radix=8)"``, a list of names in
the order of preference, or a function of a :class:`Group` that is proved before it
runs. ``timeout`` is in seconds. All ranks must make the same calls in the same order;
these errors are raised on every rank that is in a call:

MismatchError
    The ranks have passed different counts, dtypes, ops, roots or algorithms.
CollectiveTimeout
    Some rank was not there in time.
PeerFailed
    A rank has died or left.

and these before anything is sent:

TypeError, ValueError
    An argument will not do; the message says which and why.
AlgorithmNotApplicable
    The algorithm that was asked for cannot do this call.
CommunicatorClosed
    The communicator was closed, or made before the process forked.

Calls in the background
-----------------------
Every collective also has a form whose name ends in ``_async``: it gives a :class:`Work`
at once, and a thread of the communicator makes the call, in the order in which calls
were given, while the caller computes. ``comm.persistent_allreduce(buf)`` and its like
prepare a call that is made many times. What fails in the background is raised by
:meth:`Work.wait`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from collalgo._kernels.work import Persistent, Work
from collalgo._version import __version__
from collalgo.algorithms import ALGORITHMS, algorithm
from collalgo.communicator import Communicator
from collalgo.errors import (
    AlgorithmNotApplicable,
    BootstrapError,
    CollalgoError,
    CollectiveTimeout,
    CommunicatorClosed,
    MismatchError,
    OutputError,
    PeerFailed,
    RulesError,
    ScheduleError,
    TopologyError,
)
from collalgo.functions.background import (
    allgather_async,
    allgatherv_async,
    allreduce_async,
    alltoall_async,
    alltoallv_async,
    barrier_async,
    broadcast_async,
    exscan_async,
    gather_async,
    gatherv_async,
    reduce_async,
    reduce_scatter_async,
    scan_async,
    scatter_async,
    scatterv_async,
)
from collalgo.functions.reducing import (
    allreduce,
    exscan,
    reduce,
    reduce_scatter,
    scan,
)
from collalgo.functions.rooted import gather, gatherv, scatter, scatterv
from collalgo.functions.sharing import (
    allgather,
    allgatherv,
    alltoall,
    alltoallv,
    barrier,
    broadcast,
)
from collalgo.launch.local import spawn, threads
from collalgo.schedule import (
    Group,
    backwards,
    recv,
    recv_reduce,
    send,
    spare,
    staggered,
    together,
)
from collalgo.selection.selection import Selection
from collalgo.tracing.dump import dump
from collalgo.tracing.timeline import trace
from collalgo.verify import Proof, verify
from collalgo.world import init

if TYPE_CHECKING:
    from collalgo.cost.simulation import Simulation, simulate
    from collalgo.loading import load_algorithms
    from collalgo.selection.choice import select
    from collalgo.topology.model import Topology

#: What is imported when it is asked for: to communicate, nobody needs it.
_LATER = {
    "Simulation": "collalgo.cost.simulation",
    "simulate": "collalgo.cost.simulation",
    "load_algorithms": "collalgo.loading",
    "select": "collalgo.selection.choice",
    "Topology": "collalgo.topology.model",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'collalgo' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LATER[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "ALGORITHMS",
    "AlgorithmNotApplicable",
    "BootstrapError",
    "CollalgoError",
    "CollectiveTimeout",
    "Communicator",
    "CommunicatorClosed",
    "Group",
    "MismatchError",
    "OutputError",
    "PeerFailed",
    "Persistent",
    "Proof",
    "RulesError",
    "ScheduleError",
    "Selection",
    "Simulation",
    "Topology",
    "TopologyError",
    "Work",
    "__version__",
    "algorithm",
    "allgather",
    "allgather_async",
    "allgatherv",
    "allgatherv_async",
    "allreduce",
    "allreduce_async",
    "alltoall",
    "alltoall_async",
    "alltoallv",
    "alltoallv_async",
    "backwards",
    "barrier",
    "barrier_async",
    "broadcast",
    "broadcast_async",
    "dump",
    "exscan",
    "exscan_async",
    "gather",
    "gather_async",
    "gatherv",
    "gatherv_async",
    "init",
    "load_algorithms",
    "recv",
    "recv_reduce",
    "reduce",
    "reduce_async",
    "reduce_scatter",
    "reduce_scatter_async",
    "scan",
    "scan_async",
    "scatter",
    "scatter_async",
    "scatterv",
    "scatterv_async",
    "select",
    "send",
    "simulate",
    "spare",
    "spawn",
    "staggered",
    "threads",
    "together",
    "trace",
    "verify",
]
