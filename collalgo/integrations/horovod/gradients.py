"""Reduce gradients during the backward pass.

Gradients are reduced in the reverse order of the parameters, each as soon as it and all
before it are computed. So the order is the same on all ranks, whatever the order in
which they become ready.
"""

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from collalgo.comm.bucket import Bucket
from collalgo.comm.communicator import Communicator
from collalgo.integrations.horovod.basics import world
from collalgo.integrations.horovod.reductions import Average, Sum


class Gradients:
    """The gradients of an optimizer.

    Parameters
    ----------
    parameters
        The parameters, in the same order on all ranks.
    compression
        See :class:`Compression`.
    op
        The reduction.
    passes
        The number of backward passes after which gradients are reduced.
    predivide
        The factor by which gradients are divided before the sum, and their mean is
        multiplied after it.
    sparse_as_dense
        Whether sparse gradients are made dense.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        compression: Any,
        op: str,
        passes: int,
        predivide: float,
        sparse_as_dense: bool,
    ):
        self._order = [each for each in reversed(parameters) if each.requires_grad]
        self._compression, self._op, self._predivide = compression, op, predivide
        self._sparse_as_dense = sparse_as_dense
        self._world: Communicator | None = None
        self._comm: Communicator | None = None
        self.passes = passes
        self.reset()
        for each in self._order:
            each.register_post_accumulate_grad_hook(partial(_count, weakref.ref(self)))

    def reset(self) -> None:
        """Forget what has begun, as after a failure."""
        self._left = dict.fromkeys(self._order, self.passes)
        self._begun: list[tuple[Tensor, Tensor, Any]] = []
        self._bucket: Bucket | None = None

    @property
    def are_pending(self) -> bool:
        """Whether reductions have begun that were not waited for."""
        return bool(self._begun)

    def count(self, parameter: Tensor) -> None:
        """Count a gradient, and begin the reductions that can."""
        if self._left[parameter] <= 0:
            raise RuntimeError(
                f"a gradient was computed more than {self.passes} times before step(); "
                "pass backward_passes_per_step"
            )
        self._left[parameter] -= 1
        while len(self._begun) < len(self._order):
            following = self._order[len(self._begun)]
            if self._left[following]:
                return
            self._begin(following)

    def _begin(self, parameter: Tensor) -> None:
        """Begin the reduction of a gradient; one that was not computed is zero."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if parameter.grad.is_sparse:
            if not self._sparse_as_dense:
                raise NotImplementedError(
                    "sparse gradients are not reduced; pass sparse_as_dense=True to "
                    "DistributedOptimizer"
                )
            parameter.grad = parameter.grad.to_dense()
        if self._predivide != 1:
            parameter.grad.div_(self._predivide)
        small, context = self._compression.compress(parameter.grad)
        if self._bucket is None:
            self._bucket = self._new_bucket()
        self._bucket.allreduce(small.detach())
        self._begun.append((parameter, small, context))

    def _new_bucket(self) -> Bucket:
        """A bucket of a communicator of its own, so that the order is that of these."""
        present = world()
        if self._comm is None or self._world is not present:
            self._world, self._comm = present, present.dup()
        divided = self._op == Average and self._predivide != 1
        return self._comm.bucket(Sum if divided else self._op)

    def synchronize(self) -> None:
        """Reduce the gradients that are left, and wait for all."""
        for parameter in self._order[len(self._begun) :]:
            self._begin(parameter)
        if self._bucket is not None:
            self._bucket.wait()
        factor = self._predivide / world().size if self._predivide != 1 else 1.0
        for parameter, small, context in self._begun:
            found = self._compression.decompress(small, context)
            if found is not parameter.grad:
                parameter.grad.copy_(found)
            if factor != 1:
                parameter.grad.mul_(factor)
        self.reset()


def _count(gradients: "weakref.ref[Gradients]", parameter: Tensor) -> None:
    """Count a gradient, unless the optimizer is gone; parameters outlive it."""
    found = gradients()
    if found is not None:
        found.count(parameter)
