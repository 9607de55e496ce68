"""Topology-aware collective communication: algorithms written once, as schedules.

>>> import collalgo
>>> import numpy as np
>>> collalgo.threads(lambda comm: collalgo.allreduce(np.ones(2), comm), size=4)[0]
array([4., 4.])

What all collectives have in common
-----------------------------------
Arrays are NumPy arrays or anything with the buffer protocol, DLPack or the interface of
CUDA arrays, in the memory of the host or of a device. Results go into the first array
unless ``out=`` is given; arrays that are not contiguous are packed and unpacked.
``comm`` is a :class:`Communicator`, one of mpi4py, or None for the world of
:func:`init`. ``algorithm`` is None for the cheapest, a name, optionally with parameters
as in ``"k_nomial(radix=8)"``, a list of names in the order of preference, or a function
of a :class:`Group`, which is proved before it runs. ``timeout`` is in seconds. All
ranks must make the same calls in the same order. These errors are raised on every rank
that is in the call:

MismatchError
    The ranks have passed different counts, dtypes, ops, roots or algorithms.
CollectiveTimeout
    A rank did not make the call in time.
PeerFailed
    A rank has died or left, or has revoked the communicator (CommunicatorRevoked).
OpFailed
    An op of the user has raised on another rank; there the call raises the same.
InvalidElsewhere
    Another rank has passed objects, or arrays with ``like=None``, that cannot be sent;
    there the call raises the reason.

These errors are raised before any message:

TypeError, ValueError
    An argument is invalid; the message names it and the reason.
AlgorithmNotApplicable
    The requested algorithm cannot run this call.
CommunicatorClosed
    The communicator was closed, or made before the process forked.

Calls in the background
-----------------------
Every collective also has a form with the suffix ``_async``. It returns a :class:`Work`
at once, and a thread of the communicator makes the calls in the order of their
submission while the caller computes. ``comm.persistent_allreduce(buf)`` and similar
methods prepare a call for many repetitions. :meth:`Work.wait` raises the error of a
call in the background.
"""

import warnings
from typing import TYPE_CHECKING, Any

from collalgo._version import __version__
from collalgo.base.hooks import register
from collalgo.base.importing import imported

if TYPE_CHECKING:
    from collalgo import elastic as elastic, errors as errors
    from collalgo._kernels.comm.persistent import Persistent as Persistent
    from collalgo._kernels.comm.work import Work as Work
    from collalgo.algorithms.catalogue import (
        ALGORITHMS as ALGORITHMS,
        algorithm as algorithm,
    )
    from collalgo.algorithms.verify import (
        Proof as Proof,
        verify as verify,
    )
    from collalgo.base.plugins import load_plugins as load_plugins
    from collalgo.comm.communicator import Communicator as Communicator
    from collalgo.comm.exact_sum import ExactSum as ExactSum
    from collalgo.comm.functions.reducing import (
        allreduce as allreduce,
        allreduce_async as allreduce_async,
        exscan as exscan,
        exscan_async as exscan_async,
        reduce as reduce,
        reduce_async as reduce_async,
        scan as scan,
        scan_async as scan_async,
    )
    from collalgo.comm.functions.rooted import (
        gather as gather,
        gather_async as gather_async,
        gatherv as gatherv,
        gatherv_async as gatherv_async,
        scatter as scatter,
        scatter_async as scatter_async,
        scatterv as scatterv,
        scatterv_async as scatterv_async,
    )
    from collalgo.comm.functions.scattering import (
        reduce_scatter as reduce_scatter,
        reduce_scatter_async as reduce_scatter_async,
        reduce_scatter_block as reduce_scatter_block,
        reduce_scatter_block_async as reduce_scatter_block_async,
        reduce_scatterv as reduce_scatterv,
        reduce_scatterv_async as reduce_scatterv_async,
    )
    from collalgo.comm.functions.sharing import (
        allgather as allgather,
        allgather_async as allgather_async,
        allgatherv as allgatherv,
        allgatherv_async as allgatherv_async,
        alltoall as alltoall,
        alltoall_async as alltoall_async,
        alltoallv as alltoallv,
        alltoallv_async as alltoallv_async,
        barrier as barrier,
        barrier_async as barrier_async,
        broadcast as broadcast,
        broadcast_async as broadcast_async,
    )
    from collalgo.comm.graphs import cartesian as cartesian
    from collalgo.comm.objects import (
        allgather_objects as allgather_objects,
        allgather_objects_async as allgather_objects_async,
        alltoall_objects as alltoall_objects,
        alltoall_objects_async as alltoall_objects_async,
        broadcast_object as broadcast_object,
        broadcast_object_async as broadcast_object_async,
        gather_objects as gather_objects,
        gather_objects_async as gather_objects_async,
        reduce_objects as reduce_objects,
        reduce_objects_async as reduce_objects_async,
        scatter_objects as scatter_objects,
        scatter_objects_async as scatter_objects_async,
    )
    from collalgo.comm.several import (
        testany as testany,
        waitall as waitall,
        waitany as waitany,
    )
    from collalgo.comm.tracing.dump import dump as dump
    from collalgo.comm.tracing.metrics import metrics as metrics
    from collalgo.comm.tracing.timeline import trace as trace
    from collalgo.comm.tracing.view import Trace as Trace
    from collalgo.comm.world import init as init
    from collalgo.cost.bounds import bound as bound
    from collalgo.cost.simulation import (
        Simulation as Simulation,
        simulate as simulate,
    )
    from collalgo.engine.user_op import Op as Op
    from collalgo.errors import (
        AlgorithmNotApplicable as AlgorithmNotApplicable,
        BootstrapError as BootstrapError,
        CollalgoError as CollalgoError,
        CollectiveTimeout as CollectiveTimeout,
        CommunicatorClosed as CommunicatorClosed,
        CommunicatorRevoked as CommunicatorRevoked,
        InvalidElsewhere as InvalidElsewhere,
        MismatchError as MismatchError,
        OpFailed as OpFailed,
        OutputError as OutputError,
        PeerFailed as PeerFailed,
        PluginError as PluginError,
        RulesError as RulesError,
        ScheduleError as ScheduleError,
        TopologyError as TopologyError,
        VariableError as VariableError,
    )
    from collalgo.integrations.algorithm_files import load_algorithms as load_algorithms
    from collalgo.launch.run_function import (
        run as run,
        spawn as spawn,
    )
    from collalgo.launch.threads import threads as threads
    from collalgo.schedule import (
        Group as Group,
        pipeline as pipeline,
        recv as recv,
        recv_reduce as recv_reduce,
        reverse as reverse,
        send as send,
        spare as spare,
        together as together,
    )
    from collalgo.selection.choice import select as select
    from collalgo.selection.selection import Selection as Selection
    from collalgo.topology.model import Topology as Topology


def _forms(*calls: str) -> tuple[str, ...]:
    """The names of calls in the foreground and in the background."""
    return tuple(f"{call}{form}" for call in calls for form in ("", "_async"))


#: Where each public name is. A module is imported when one of its names is asked for:
#: ``import collalgo`` itself loads no compiled code and no NumPy.
_NAMES = {
    "collalgo._kernels.comm.persistent": ("Persistent",),
    "collalgo._kernels.comm.work": ("Work",),
    "collalgo.algorithms.catalogue": ("ALGORITHMS", "algorithm"),
    "collalgo.algorithms.verify": ("Proof", "verify"),
    "collalgo.comm.communicator": ("Communicator",),
    "collalgo.comm.exact_sum": ("ExactSum",),
    "collalgo.comm.functions.reducing": _forms("allreduce", "exscan", "reduce", "scan"),
    "collalgo.comm.functions.rooted": _forms(
        "gather", "gatherv", "scatter", "scatterv"
    ),
    "collalgo.comm.functions.scattering": _forms(
        "reduce_scatter", "reduce_scatter_block", "reduce_scatterv"
    ),
    "collalgo.comm.functions.sharing": _forms(
        "allgather", "allgatherv", "alltoall", "alltoallv", "barrier", "broadcast"
    ),
    "collalgo.comm.graphs": ("cartesian",),
    "collalgo.comm.objects": _forms(
        "allgather_objects",
        "alltoall_objects",
        "broadcast_object",
        "gather_objects",
        "reduce_objects",
        "scatter_objects",
    ),
    "collalgo.base.plugins": ("load_plugins",),
    "collalgo.comm.several": ("testany", "waitall", "waitany"),
    "collalgo.comm.tracing.dump": ("dump",),
    "collalgo.comm.tracing.metrics": ("metrics",),
    "collalgo.comm.tracing.timeline": ("trace",),
    "collalgo.comm.tracing.view": ("Trace",),
    "collalgo.comm.world": ("init",),
    "collalgo.cost.bounds": ("bound",),
    "collalgo.cost.simulation": ("Simulation", "simulate"),
    "collalgo.engine.user_op": ("Op",),
    "collalgo.errors": (
        "AlgorithmNotApplicable",
        "BootstrapError",
        "CollalgoError",
        "CollectiveTimeout",
        "CommunicatorClosed",
        "CommunicatorRevoked",
        "InvalidElsewhere",
        "MismatchError",
        "OpFailed",
        "OutputError",
        "PeerFailed",
        "PluginError",
        "RulesError",
        "ScheduleError",
        "TopologyError",
        "VariableError",
    ),
    "collalgo.integrations.algorithm_files": ("load_algorithms",),
    "collalgo.launch.run_function": ("run", "spawn"),
    "collalgo.launch.threads": ("threads",),
    "collalgo.schedule": (
        "Group",
        "reverse",
        "recv",
        "recv_reduce",
        "send",
        "spare",
        "pipeline",
        "together",
    ),
    "collalgo.selection.choice": ("select",),
    "collalgo.selection.selection": ("Selection",),
    "collalgo.topology.model": ("Topology",),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604

#: Public modules, which are imported when they are first used.
_MODULES = {"elastic", "errors"}

#: Former public names, which still work with a DeprecationWarning, and the new ones.
_RENAMED = {"backwards": "reverse", "staggered": "pipeline"}

# What lower layers call of higher ones.
register("init", "collalgo.comm.world:init")
register("Topology.of", "collalgo.comm.topology:of")
register("world of MPI", "collalgo.integrations.mpi4py:world_communicator")
register("communicator of mpi4py", "collalgo.integrations.mpi4py:communicator")
register("dtype of torch", "collalgo.integrations.torch.tensors:dtype_of")
register("narrow array of torch", "collalgo.integrations.torch.tensors:narrow_array")
register("empty tensor of torch", "collalgo.integrations.torch.new_tensors:empty")
register("new array of JAX", "collalgo.integrations.jax:new_array")
register("new tensor of torch", "collalgo.integrations.torch.new_tensors:new_like")


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        message = f"collalgo.{name} is deprecated; use collalgo.{new}"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(imported(_HOME[new]), new)
    if name in _MODULES:
        return imported(f"collalgo.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'collalgo' has no attribute {name!r}")
    found = globals()[name] = getattr(imported(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
