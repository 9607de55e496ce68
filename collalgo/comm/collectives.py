"""The collectives as methods of a communicator."""

from collalgo._kernels.comm.method import method
from collalgo.comm import objects, planned_alltoallv
from collalgo.comm.background import persistent
from collalgo.comm.functions import reducing, rooted, scattering, sharing


class Collectives:
    """The collectives of a communicator, each the function of the same name.

    Declared in :mod:`collalgo.comm.functions`.
    """

    allreduce = method(reducing.allreduce)
    reduce = method(reducing.reduce)
    reduce_scatter = method(scattering.reduce_scatter)
    reduce_scatter_block = method(scattering.reduce_scatter_block)
    reduce_scatterv = method(scattering.reduce_scatterv)
    scan = method(reducing.scan)
    exscan = method(reducing.exscan)
    broadcast = method(sharing.broadcast)
    allgather = method(sharing.allgather)
    allgatherv = method(sharing.allgatherv)
    alltoall = method(sharing.alltoall)
    alltoallv = method(sharing.alltoallv)
    gather = method(rooted.gather)
    gatherv = method(rooted.gatherv)
    scatter = method(rooted.scatter)
    scatterv = method(rooted.scatterv)
    barrier = method(sharing.barrier)

    broadcast_object = method(objects.broadcast_object)
    gather_objects = method(objects.gather_objects)
    allgather_objects = method(objects.allgather_objects)
    scatter_objects = method(objects.scatter_objects)
    alltoall_objects = method(objects.alltoall_objects)
    reduce_objects = method(objects.reduce_objects)

    broadcast_object_async = method(objects.broadcast_object_async)
    gather_objects_async = method(objects.gather_objects_async)
    allgather_objects_async = method(objects.allgather_objects_async)
    scatter_objects_async = method(objects.scatter_objects_async)
    alltoall_objects_async = method(objects.alltoall_objects_async)
    reduce_objects_async = method(objects.reduce_objects_async)

    allreduce_async = method(reducing.allreduce_async)
    reduce_async = method(reducing.reduce_async)
    reduce_scatter_async = method(scattering.reduce_scatter_async)
    reduce_scatter_block_async = method(scattering.reduce_scatter_block_async)
    reduce_scatterv_async = method(scattering.reduce_scatterv_async)
    scan_async = method(reducing.scan_async)
    exscan_async = method(reducing.exscan_async)
    broadcast_async = method(sharing.broadcast_async)
    allgather_async = method(sharing.allgather_async)
    allgatherv_async = method(sharing.allgatherv_async)
    alltoall_async = method(sharing.alltoall_async)
    alltoallv_async = method(sharing.alltoallv_async)
    gather_async = method(rooted.gather_async)
    gatherv_async = method(rooted.gatherv_async)
    scatter_async = method(rooted.scatter_async)
    scatterv_async = method(rooted.scatterv_async)
    barrier_async = method(sharing.barrier_async)

    persistent_allreduce = method(persistent(reducing.allreduce))
    persistent_reduce = method(persistent(reducing.reduce))
    persistent_reduce_scatter = method(persistent(scattering.reduce_scatter))
    persistent_broadcast = method(persistent(sharing.broadcast))
    persistent_allgather = method(persistent(sharing.allgather))
    persistent_alltoall = method(persistent(sharing.alltoall))
    persistent_alltoallv = planned_alltoallv.persistent_alltoallv
    persistent_gather = method(persistent(rooted.gather))
    persistent_barrier = method(persistent(sharing.barrier))
