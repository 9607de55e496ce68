"""Give all ranks the parameters, the state of an optimizer or an object of one."""

from collections.abc import Iterable, Mapping
from typing import Any

from collalgo.integrations.horovod.basics import world, world_of
from collalgo.integrations.horovod.handles import broadcast_async_


def broadcast_parameters(
    params: Any,
    root_rank: int,
    prefix: str | None = None,  # noqa: ARG001
) -> None:
    """Broadcast tensors of the root to every rank, in place.

    Parameters
    ----------
    params
        ``model.state_dict()``, ``model.named_parameters()``, or tensors.
    root_rank
        The rank whose tensors they are.
    prefix
        Of no effect.

    Raises
    ------
    TypeError
        If ``params`` is neither a mapping nor iterable.
    """
    if isinstance(params, Mapping):
        params = sorted(params.items())
    elif not isinstance(params, Iterable):
        raise TypeError(
            f"broadcast_parameters: params is of type {type(params).__name__}; pass "
            "model.state_dict() or model.named_parameters()"
        )
    tensors = [each[1] if isinstance(each, tuple) else each for each in params]
    for handle in [broadcast_async_(each, root_rank) for each in tensors]:
        handle.wait()


def broadcast_optimizer_state(
    optimizer: Any,
    root_rank: int,
    model: Any = None,  # noqa: ARG001
) -> None:
    """Give all ranks the state of the optimizer of the root, which is pickled.

    Parameters
    ----------
    optimizer
        An optimizer of torch, or a :class:`DistributedOptimizer`.
    root_rank
        The rank whose state it is.
    model
        Of no effect.
    """
    state = world().broadcast_object(optimizer.state_dict(), root_rank)
    if world().rank != root_rank:
        optimizer.load_state_dict(state)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    name: str | None = None,  # noqa: ARG001
    process_set: None = None,
) -> Any:
    """Broadcast an object of the root, which the other ranks unpickle."""
    return world_of(process_set).broadcast_object(obj, root_rank)


def allgather_object(
    obj: Any,
    name: str | None = None,  # noqa: ARG001
    process_set: None = None,
) -> list[Any]:
    """The objects of all ranks, by rank, which are unpickled."""
    return list(world_of(process_set).allgather_objects(obj))
