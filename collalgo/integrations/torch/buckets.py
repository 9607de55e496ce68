"""Gradient buckets of DistributedDataParallel, in memory that all ranks have mapped.

There others read gradients where they are, and write sums where they belong, as with
arrays of ``comm.empty``, instead of copying all of it through shared memory. Torch has
the buckets in memory of its own; but it can move a tensor to shared memory, with all
that are views of it, and what is mapped there can be replaced.

Only what nobody has looked at can be moved: a NumPy array on the memory of a tensor
would still be where it was.
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

#: Buckets of fewer bytes are left alone: to copy them takes little of their time.
LONG = 1 << 16

#: Each moved bucket keeps a descriptor open. None moves unless a process may open so
#: many times as many as it has.
SPARE_DESCRIPTORS = 2

#: The function from which C++ runs a backward pass.
ENGINE = torch.autograd.graph._engine_run_backward.__code__

#: The attribute of a bucket that has been seen: its memory in the heap, or None.
PLACE = "_collalgo_place"

#: What it is of one that has been seen once.
SEEN = object()


def is_called_by_ddp() -> bool:
    """Whether who asks was called by DDP, with a bucket that nobody else can see.

    Its C++ makes the call when a gradient has been accumulated, with no Python in
    between, as there is in a hook. If the user wanted gradients that are views of the
    buckets (``gradient_as_bucket_view``), these can be seen.
    """
    caller = sys._getframe(1).f_back
    if caller is None or caller.f_code is not ENGINE:
        return False
    node = torch._C._current_autograd_node()
    gradient = getattr(getattr(node, "variable", None), "grad", None)
    return gradient is not None and not gradient._is_view()


def in_heap(bucket: Tensor, heap: Heap) -> Tensor:
    """A bucket as the others have mapped it, or the bucket itself.

    It is moved when it comes for the second time: DDP makes its buckets anew after the
    first step.
    """
    if not hasattr(bucket, PLACE):
        setattr(bucket, PLACE, SEEN)
    elif getattr(bucket, PLACE) is SEEN:
        setattr(bucket, PLACE, _moved(bucket, heap))
    place = getattr(bucket, PLACE)
    return place if isinstance(place, Tensor) else bucket


def _moved(bucket: Tensor, heap: Heap) -> Tensor | None:
    """Move a bucket into the heap, and give what it is there; None if that cannot be.

    It goes to memory of torch first, in whose place the heap is mapped then, and which
    is emptied. The block lives as long as the bucket, which refers to it.
    """
    if not _is_all(bucket) or bucket.nbytes < LONG or not _has_descriptors():
        return None
    block = heap.take(bucket.nbytes)
    if block is None:
        return None
    place = torch.frombuffer(memoryview(block), dtype=bucket.dtype)
    place.copy_(bucket)
    memory = bucket.untyped_storage()
    try:
        descriptor, _ = memory._share_fd_cpu_()
        block.map_at(memory.data_ptr())
    except (OSError, RuntimeError) as error:
        log.info("a bucket of %d bytes stays where it is: %s", bucket.nbytes, error)
        return None
    os.truncate(descriptor, 0)
    return place


def _is_all(bucket: Tensor) -> bool:
    """Whether a tensor on the host is all that there is in its memory."""
    return (
        is_plain(bucket)
        and bucket.dim() == 1
        and bucket.is_contiguous()
        and bucket.nbytes == bucket.untyped_storage().nbytes()
    )


def _has_descriptors() -> bool:
    """Whether this process may open enough descriptors besides those that it has."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len([*Path("/proc/self/fd").iterdir()]) * SPARE_DESCRIPTORS < limit
