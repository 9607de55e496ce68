"""Blocking calls, through which gradients flow."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from collalgo.integrations.horovod.basics import rank, size
from collalgo.integrations.horovod.compression import Compression
from collalgo.integrations.horovod.handles import (
    allgather_async,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    broadcast_async,
    broadcast_async_,
    copy_of,
    grouped_allreduce_async_,
    reducescatter_async,
)
from collalgo.integrations.horovod.reductions import Average

Call = Callable[[Tensor], Tensor]


class _Differentiable(torch.autograd.Function):
    """A call with another one for the gradient of its result."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, call: Call, back: Call) -> Tensor:
        ctx.back = back
        return call(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradients[0].contiguous()), None, None


def _apply(tensor: Tensor, call: Call, back: Call) -> Tensor:
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return call(tensor)
    found: Tensor = _Differentiable.apply(tensor, call, back)
    return found


def allreduce_(tensor: Tensor, *args: Any, **named: Any) -> Any:
    """Reduce the tensors of all ranks in place; see :func:`grouped_allreduce_`."""
    return allreduce_async_(tensor, *args, **named).wait()


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: str | None = None,
    **named: Any,
) -> Tensor:
    """Reduce the tensors of all ranks into a new tensor.

    Parameters
    ----------
    tensor
        A tensor of the same shape and dtype on every rank; unchanged.
    average, op
        The reduction: :data:`Average` by default.
    name
        Of no effect: calls are matched by their order.
    compression
        One of :class:`Compression`.
    **named
        ``prescale_factor`` and ``postscale_factor``.

    Returns
    -------
    Tensor
        The result. Its gradient is reduced in the same way.
    """
    small, context = compression.compress(tensor)

    def reduced(each: Tensor) -> Tensor:
        found: Tensor = allreduce_async(each, average, name, op, **named).wait()
        return found

    result: Tensor = compression.decompress(_apply(small, reduced, reduced), context)
    return result


def grouped_allreduce_(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> Sequence[Tensor]:
    """Reduce many tensors in place in few calls; see ``grouped_allreduce_async_``."""
    found: Sequence[Tensor] = grouped_allreduce_async_(tensors, *args, **named).wait()
    return found


def grouped_allreduce(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> Sequence[Tensor]:
    """Reduce copies of many tensors in few calls; no gradient flows through them."""
    return grouped_allreduce_([copy_of(t) for t in tensors], *args, **named)


def allgather(tensor: Tensor, *args: Any, **named: Any) -> Tensor:
    """Concatenate the tensors of all ranks on axis 0, which may differ in length.

    Returns
    -------
    Tensor
        The rows of all ranks; a rank gets the mean of the gradients of its own.
    """

    def gathered(each: Tensor) -> Tensor:
        found: Tensor = allgather_async(each, *args, **named).wait()
        return found

    def back(gradient: Tensor) -> Tensor:
        rows = gathered(torch.tensor([tensor.shape[0] if tensor.dim() else 1]))
        start, count = int(rows[: rank()].sum()), int(rows[rank()])
        mine = allreduce(gradient, op=Average).narrow(0, start, count)
        return mine.reshape(tensor.shape)

    return _apply(tensor, gathered, back)


def grouped_allgather(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> list[Tensor]:
    """Concatenate each tensor with those of all ranks; see :func:`allgather`."""
    return [allgather(each, *args, **named) for each in tensors]


def broadcast_(tensor: Tensor, root_rank: int, *args: Any, **named: Any) -> Any:
    """Broadcast the tensor of the root to every rank, in place."""
    return broadcast_async_(tensor, root_rank, *args, **named).wait()


def broadcast(tensor: Tensor, root_rank: int, *args: Any, **named: Any) -> Tensor:
    """Broadcast the tensor of the root into a new tensor.

    Returns
    -------
    Tensor
        That of the root, which gets the mean of the gradients.
    """

    def sent(each: Tensor) -> Tensor:
        found: Tensor = broadcast_async(each, root_rank, *args, **named).wait()
        return found

    def back(gradient: Tensor) -> Tensor:
        return allreduce(gradient, op=Average) * float(rank() == root_rank)

    return _apply(tensor, sent, back)


def alltoall(tensor: Tensor, splits: Any = None, *args: Any, **named: Any) -> Any:
    """Exchange parts of axis 0 with all ranks; see :func:`alltoall_async`.

    Returns
    -------
    Tensor or tuple
        The received tensor and, if ``splits`` is given, the rows from each rank.
    """
    received: list[Tensor] = []

    def exchanged(counts: Any, each: Tensor) -> Tensor:
        found = alltoall_async(each, counts, *args, **named).wait()
        if counts is None:
            return found
        received.append(found[1])
        return found[0]

    def back(gradient: Tensor) -> Tensor:
        return exchanged(None if splits is None else received[0], gradient)

    result = _apply(tensor, partial(exchanged, splits), back)
    return result if splits is None else (result, received[0])


def reducescatter(
    tensor: Tensor, name: str | None = None, op: str | None = Average, **named: Any
) -> Tensor:
    """Reduce the tensors of all ranks and leave each rank its part of axis 0.

    Returns
    -------
    Tensor
        The part of this rank; its gradient goes to all ranks.
    """

    def reduced(each: Tensor) -> Tensor:
        found: Tensor = reducescatter_async(each, name, op, **named).wait()
        return found

    def back(gradient: Tensor) -> Tensor:
        whole = allgather(gradient)
        return whole / size() if op == Average else whole

    return _apply(tensor, reduced, back)


def grouped_reducescatter(
    tensors: Sequence[Tensor], *args: Any, **named: Any
) -> list[Tensor]:
    """Reduce each tensor and leave its part to each rank; see :func:`reducescatter`."""
    return [reducescatter(each, *args, **named) for each in tensors]
