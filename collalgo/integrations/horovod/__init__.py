"""The calls of ``horovod.torch``, for scripts of torch in its style.

``import collalgo.integrations.horovod as hvd`` in place of ``import horovod.torch as
hvd`` runs such a script. Calls are not matched by name: all ranks make them in the same
order, and ranks that differ get an error.
"""

from typing import Any

from collalgo.errors import CollalgoError
from collalgo.integrations.horovod import elastic as elastic
from collalgo.integrations.horovod.absent import reason_of_absence
from collalgo.integrations.horovod.basics import (
    barrier as barrier,
    cross_rank as cross_rank,
    cross_size as cross_size,
    init as init,
    is_homogeneous as is_homogeneous,
    is_initialized as is_initialized,
    join as join,
    local_rank as local_rank,
    local_size as local_size,
    rank as rank,
    shutdown as shutdown,
    size as size,
)
from collalgo.integrations.horovod.built import (
    ccl_built as ccl_built,
    cuda_built as cuda_built,
    ddl_built as ddl_built,
    gloo_built as gloo_built,
    gloo_enabled as gloo_enabled,
    mpi_built as mpi_built,
    mpi_enabled as mpi_enabled,
    mpi_threads_supported as mpi_threads_supported,
    nccl_built as nccl_built,
    rocm_built as rocm_built,
)
from collalgo.integrations.horovod.calls import (
    allgather as allgather,
    allreduce as allreduce,
    allreduce_ as allreduce_,
    alltoall as alltoall,
    broadcast as broadcast,
    broadcast_ as broadcast_,
    grouped_allgather as grouped_allgather,
    grouped_allreduce as grouped_allreduce,
    grouped_allreduce_ as grouped_allreduce_,
    grouped_reducescatter as grouped_reducescatter,
    reducescatter as reducescatter,
)
from collalgo.integrations.horovod.compression import Compression as Compression
from collalgo.integrations.horovod.handles import (
    allgather_async as allgather_async,
    allreduce_async as allreduce_async,
    allreduce_async_ as allreduce_async_,
    alltoall_async as alltoall_async,
    broadcast_async as broadcast_async,
    broadcast_async_ as broadcast_async_,
    grouped_allgather_async as grouped_allgather_async,
    grouped_allreduce_async as grouped_allreduce_async,
    grouped_allreduce_async_ as grouped_allreduce_async_,
    grouped_reducescatter_async as grouped_reducescatter_async,
    poll as poll,
    reducescatter_async as reducescatter_async,
    synchronize as synchronize,
)
from collalgo.integrations.horovod.optimizer import (
    DistributedOptimizer as DistributedOptimizer,
)
from collalgo.integrations.horovod.parameters import (
    allgather_object as allgather_object,
    broadcast_object as broadcast_object,
    broadcast_optimizer_state as broadcast_optimizer_state,
    broadcast_parameters as broadcast_parameters,
)
from collalgo.integrations.horovod.reductions import (
    Adasum as Adasum,
    Average as Average,
    Max as Max,
    Min as Min,
    Product as Product,
    Sum as Sum,
)

#: The error that scripts catch.
HorovodInternalError = CollalgoError


def __getattr__(name: str) -> Any:
    raise AttributeError(reason_of_absence(name))
