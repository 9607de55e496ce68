"""An optimizer that reduces gradients before its steps."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from collalgo.integrations.horovod.basics import world_of
from collalgo.integrations.horovod.compression import Compression
from collalgo.integrations.horovod.gradients import Gradients
from collalgo.integrations.horovod.reductions import Average, op_of


class _Reducing:
    """The methods that an optimizer gets, in front of its own."""

    _gradients: Gradients
    _is_synchronized: bool
    _waits_in_step: bool

    def synchronize(self) -> None:
        """Wait until all gradients are reduced."""
        self._gradients.synchronize()
        self._is_synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within this, ``step`` does not reduce: ``synchronize`` was called before."""
        self._waits_in_step = False
        try:
            yield
        finally:
            self._waits_in_step = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Reduce the gradients, and update the parameters."""
        if self._waits_in_step and not self._is_synchronized:
            self.synchronize()
        self._is_synchronized = False
        return super().step(closure)  # type: ignore[misc]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients."""
        if self._gradients.are_pending:
            raise RuntimeError(
                "zero_grad() was called between backward() and step(), while gradients "
                "are reduced; call it before backward()"
            )
        super().zero_grad(set_to_none)  # type: ignore[misc]

    def load_state_dict(self, state: Any) -> None:
        """Load a state, and forget reductions that have begun."""
        self._gradients.reset()
        self._is_synchronized = False
        super().load_state_dict(state)  # type: ignore[misc]

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Reduce gradients after this number of backward passes."""
        self._gradients.passes = passes
        self._gradients.reset()


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,  # noqa: ARG001
    groups: Any = None,  # noqa: ARG001
    sparse_as_dense: bool = False,
    process_set: None = None,
) -> Any:
    """An optimizer that reduces gradients during ``backward`` and before ``step``.

    Parameters
    ----------
    optimizer
        An optimizer of torch, whose parameters are in the same order on all ranks. It
        shares its parameters and its state with the result.
    named_parameters
        Names of parameters, which must be unique; they have no further effect.
    compression
        One of :class:`Compression`.
    backward_passes_per_step
        The number of backward passes after which gradients are reduced.
    op
        :data:`Average` or :data:`Sum`.
    gradient_predivide_factor
        Gradients are divided by it before their sum, and their mean is multiplied by it
        after it, with ``op=Average``.
    num_groups, groups
        Of no effect: gradients are fused into calls of about 1 MiB.
    sparse_as_dense
        Whether sparse gradients are made dense; otherwise they are an error.
    process_set
        Not supported: None.

    Returns
    -------
    Optimizer
        An object of a subclass of the class of ``optimizer``, with ``synchronize()``
        and ``skip_synchronize()``.
    """
    _check_names(named_parameters)
    if process_set is not None:
        world_of(process_set)
    if gradient_predivide_factor != 1 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    kind = type(optimizer)
    made: Any = object.__new__(type(kind.__name__, (_Reducing, kind), {}))
    own = {name: v for name, v in vars(optimizer).items() if name != "step"}
    made.__dict__.update(own, _is_synchronized=False, _waits_in_step=True)
    made._gradients = Gradients(
        [each for group in optimizer.param_groups for each in group["params"]],
        compression,
        op_of(op, None),
        backward_passes_per_step,
        gradient_predivide_factor,
        sparse_as_dense,
    )
    return made


def _check_names(named_parameters: Iterable[tuple[str, torch.Tensor]] | None) -> None:
    """Check that names of parameters are unique."""
    names = [name for name, _ in named_parameters or ()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"DistributedOptimizer: named_parameters has {twice[0]!r} twice; pass "
            "model.named_parameters()"
        )
