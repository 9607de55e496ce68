"""Move gradient buckets of DistributedDataParallel into memory that all ranks map.

Other ranks then read gradients and write sums in place, as with arrays of
``comm.empty``, instead of copying them through shared memory. Torch allocates the
buckets in private memory. It can move a tensor, with all views of it, to shared memory,
and that mapping can be replaced.

Only a bucket without outside references can be moved: a NumPy array on the memory of
the tensor would keep the old address.
"""

import logging
import os
import resource
import sys
from pathlib import Path

import torch
from torch import Tensor

from collalgo.engine.heap import Heap
from collalgo.integrations.torch.tensors import is_plain

log = logging.getLogger(__name__)

#: Shorter buckets, in bytes, are not moved: copying them is cheap.
LONG = 1 << 16

#: Each moved bucket keeps a file descriptor open. A bucket moves only if the limit is
#: at least this multiple of the open descriptors.
SPARE_DESCRIPTORS = 2

#: The Python function that starts the backward pass in C++.
ENGINE = torch.autograd.graph._engine_run_backward.__code__

#: The attribute of a bucket for its memory in the heap, or None.
HEAP_MEMORY = "_collalgo_place"

#: The value of the attribute after the first call.
SEEN = object()


def is_called_by_ddp() -> bool:
    """Whether DDP called the caller, with a bucket that user code cannot see.

    The C++ of DDP makes the call after it accumulates a gradient, without a Python
    frame in between; a hook has one. With ``gradient_as_bucket_view`` user code sees
    the buckets through the gradients.
    """
    caller = sys._getframe(1).f_back
    if caller is None or caller.f_code is not ENGINE:
        return False
    node = torch._C._current_autograd_node()
    gradient = getattr(getattr(node, "variable", None), "grad", None)
    return gradient is not None and not gradient._is_view()


def in_heap(bucket: Tensor, heap: Heap) -> Tensor:
    """The heap memory of a bucket, or the bucket itself if it has not moved.

    A bucket moves at its second call, since DDP reallocates its buckets after the first
    step.
    """
    if not hasattr(bucket, HEAP_MEMORY):
        setattr(bucket, HEAP_MEMORY, SEEN)
    elif getattr(bucket, HEAP_MEMORY) is SEEN:
        setattr(bucket, HEAP_MEMORY, _moved(bucket, heap))
    memory = getattr(bucket, HEAP_MEMORY)
    return memory if isinstance(memory, Tensor) else bucket


def _moved(bucket: Tensor, heap: Heap) -> Tensor | None:
    """Move a bucket into the heap and return its tensor there; None if it cannot move.

    Torch first moves the bucket to its own shared memory; the heap block is then mapped
    over that memory, whose file is truncated. The bucket keeps the block alive.
    """
    if not _is_all(bucket) or bucket.nbytes < LONG or not _has_descriptors():
        return None
    block = heap.take(bucket.nbytes)
    if block is None:
        return None
    moved = torch.frombuffer(memoryview(block), dtype=bucket.dtype)
    moved.copy_(bucket)
    memory = bucket.untyped_storage()
    try:
        descriptor, _ = memory._share_fd_cpu_()
        block.map_at(memory.data_ptr())
    except (OSError, RuntimeError) as error:
        log.info("a bucket of %d bytes was not moved: %s", bucket.nbytes, error)
        return None
    os.truncate(descriptor, 0)
    return moved


def _is_all(bucket: Tensor) -> bool:
    """Whether a tensor in host memory covers its whole storage."""
    return (
        is_plain(bucket)
        and bucket.dim() == 1
        and bucket.is_contiguous()
        and bucket.nbytes == bucket.untyped_storage().nbytes()
    )


def _has_descriptors() -> bool:
    """Whether enough file descriptors are left below the limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len([*Path("/proc/self/fd").iterdir()]) * SPARE_DESCRIPTORS < limit
