"""A barrier that names the missing ranks, as torch has for gloo."""

from datetime import timedelta

import torch.distributed as dist

from collalgo.integrations.torch.group import CollalgoGroup


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait for all ranks, as ``dist.monitored_barrier``, which torch keeps for gloo.

    Parameters
    ----------
    group
        A process group of collalgo; by default the world.
    timeout
        How long to wait; by default the timeout of the group.
    wait_all_ranks
        Of no effect: the error names all missing ranks in any case.

    Raises
    ------
    CollectiveTimeout
        If ranks are missing when the time is up.
    """
    found = dist.group.WORLD if group is None else group
    if not isinstance(found, CollalgoGroup):
        raise TypeError(
            f"monitored_barrier: the group is a {type(found).__name__}; pass one of "
            "the backend collalgo, or call dist.monitored_barrier"
        )
    found.monitored_barrier(timeout, wait_all_ranks)
