"""Calls in the background; each returns a handle for ``poll`` and ``synchronize``."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from collalgo.engine.reduction import check_in_place
from collalgo.integrations.horovod.basics import world_of
from collalgo.integrations.horovod.reductions import Average, op_of


class Handle:
    """A call in the background.

    Parameters
    ----------
    works
        The calls of the library.
    finish
        Returns the result, once they are done.
    """

    def __init__(self, works: Sequence[Any], finish: Callable[[], Any]):
        self.works, self._finish = works, finish

    def wait(self) -> Any:
        """Wait for the calls, and return the result."""
        for work in self.works:
            work.wait()
        return self._finish()


def poll(handle: Handle) -> bool:
    """Whether a call has ended, so that :func:`synchronize` does not wait."""
    return all(work.done() for work in handle.works)


def synchronize(handle: Handle) -> Any:
    """Wait for a call.

    Returns
    -------
    Tensor, list or tuple
        The result of the call.

    Raises
    ------
    CollalgoError
        The error of the call: ``PeerFailed``, ``MismatchError`` or another.
    """
    return handle.wait()


def copy_of(tensor: Tensor) -> Tensor:
    """A contiguous copy of a tensor, without its history."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: None = None,
) -> Handle:
    """Reduce the tensors of all ranks in place.

    Parameters
    ----------
    tensor
        A tensor of the same shape and dtype on every rank.
    average, op
        The reduction: :data:`Average` by default.
    name, process_set
        Of no effect: calls are matched by their order, and all ranks take part.
    prescale_factor, postscale_factor
        Factors of the tensor before and after the reduction.
    """
    reduction = op_of(op, average)
    check_in_place(reduction, "allreduce")
    plain, comm = _scaled(tensor, prescale_factor), world_of(process_set)
    work = comm.allreduce_async(plain, reduction)
    return Handle([work], lambda: _finished(tensor, postscale_factor))


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """The tensor without its history, multiplied in place."""
    plain = tensor.detach()
    return plain if factor == 1 else plain.mul_(factor)


def _finished(tensor: Tensor, factor: float) -> Tensor:
    """The tensor itself, multiplied in place."""
    _scaled(tensor, factor)
    return tensor


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,  # noqa: ARG001
    op: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: None = None,
) -> Handle:
    """Reduce tensors in place, many in one call; see :func:`allreduce_async_`."""
    bucket = world_of(process_set).bucket(op_of(op, average))
    works = [bucket.allreduce(_scaled(each, prescale_factor)) for each in tensors]
    bucket.flush()
    return Handle(works, lambda: [_finished(t, postscale_factor) for t in tensors])


def grouped_allreduce_async(tensors: Sequence[Tensor], *args: Any, **named: Any) -> Any:
    """Reduce copies of tensors; see :func:`grouped_allreduce_async_`."""
    return grouped_allreduce_async_([copy_of(each) for each in tensors], *args, **named)


def allreduce_async(tensor: Tensor, *args: Any, **named: Any) -> Handle:
    """Reduce copies of the tensors of all ranks; see :func:`allreduce_async_`."""
    return allreduce_async_(copy_of(tensor), *args, **named)


def allgather_async(
    tensor: Tensor,
    name: str | None = None,  # noqa: ARG001
    process_set: None = None,
) -> Handle:
    """Concatenate the tensors of all ranks on axis 0, which may differ in length."""
    mine = copy_of(tensor) if tensor.dim() else copy_of(tensor).reshape(1)
    work = world_of(process_set).allgatherv_async(mine)
    return Handle([work], work.wait)


def grouped(handles: Sequence[Handle]) -> Handle:
    """The handle of several calls, whose results are a list."""
    works = [work for each in handles for work in each.works]
    return Handle(works, lambda: [each.wait() for each in handles])


def grouped_allgather_async(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> Handle:
    """Concatenate each tensor with those of all ranks; see :func:`allgather_async`."""
    return grouped([allgather_async(each, *args, **named) for each in tensors])


def broadcast_async_(
    tensor: Tensor,
    root_rank: int,
    name: str | None = None,  # noqa: ARG001
    process_set: None = None,
) -> Handle:
    """Broadcast the tensor of the root to every rank, in place."""
    work = world_of(process_set).broadcast_async(tensor.detach(), root_rank)
    return Handle([work], lambda: tensor)


def broadcast_async(tensor: Tensor, root_rank: int, *args: Any, **named: Any) -> Handle:
    """Broadcast the tensor of the root into a copy; see :func:`broadcast_async_`."""
    return broadcast_async_(copy_of(tensor), root_rank, *args, **named)


def alltoall_async(
    tensor: Tensor,
    splits: Any = None,
    name: str | None = None,  # noqa: ARG001
    process_set: None = None,
) -> Handle:
    """Exchange parts of axis 0 with all ranks.

    Parameters
    ----------
    tensor
        Axis 0 has a part for each rank, in their order.
    splits
        The number of rows for each rank; equal by default.
    name, process_set
        Of no effect.

    Returns
    -------
    Handle
        Of the received tensor and, if ``splits`` is given, the rows from each rank.
    """
    comm = world_of(process_set)
    if splits is None:
        work = comm.alltoall_async(copy_of(tensor))
        return Handle([work], work.wait)
    sent = np.asarray(splits, np.int64)
    received = np.asarray(comm.alltoall(sent))
    work = comm.alltoallv_async(copy_of(tensor), sent.tolist(), received.tolist())
    return Handle([work], lambda: (work.wait(), torch.from_numpy(received)))


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,  # noqa: ARG001
    op: str | None = Average,
    process_set: None = None,
) -> Handle:
    """Reduce the tensors of all ranks and leave each rank its part of axis 0."""
    comm = world_of(process_set)
    work = comm.reduce_scatter_async(copy_of(tensor), op_of(op, None))
    return Handle([work], work.wait)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> Handle:
    """Reduce each tensor and leave its part; see :func:`reducescatter_async`."""
    return grouped([reducescatter_async(each, *args, **named) for each in tensors])
