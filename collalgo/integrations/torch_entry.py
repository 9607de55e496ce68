"""The entry point ``torch.backends``, which torch loads at every ``import torch``.

That of ``torchrun.handlers`` is here, too, which every torchrun loads.

It registers the name of the backend, a rendezvous for launchers that do not set the
variables of torch, and the barrier that torch keeps for gloo. It imports nothing else
of the package: a broken installation raises its error when a process group is created.
"""

import os
import sys
from datetime import timedelta
from functools import wraps
from typing import Any

#: What the rendezvous ``env://`` of torch needs.
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def register() -> None:
    """Register the backend ``collalgo``; torch calls this when it is imported."""
    import torch.distributed as dist

    if dist.is_available() and "COLLALGO" not in dist.Backend._plugins:
        dist.Backend.register_backend(
            "collalgo", _create, extended_api=True, devices=["cpu", "cuda"]
        )
        _extend_rendezvous()
        _extend_monitored_barrier()


def _extend_monitored_barrier() -> None:
    """Let ``dist.monitored_barrier`` take groups of collalgo, as those of gloo."""
    import torch.distributed as dist

    of_torch = dist.monitored_barrier

    @wraps(of_torch)
    def monitored_barrier(
        group: Any = None, timeout: Any = None, *args: Any, **named: Any
    ) -> Any:
        found = dist.group.WORLD if group is None else group
        if not _is_ours(found):
            return of_torch(group, timeout, *args, **named)
        if isinstance(timeout, float):  # as torch does
            timeout = timedelta(seconds=timeout)
        return found.monitored_barrier(timeout, *args, **named)

    for module in dist, dist.distributed_c10d:
        module.monitored_barrier = monitored_barrier


def _is_ours(group: Any) -> bool:
    """Whether a process group is of collalgo, whose module is then imported."""
    module = sys.modules.get("collalgo.integrations.torch.group")
    return module is not None and isinstance(group, module.CollalgoGroup)


def _extend_rendezvous() -> None:
    """Let ``env://`` of torch connect as the launcher says, where it would fail."""
    from importlib import import_module

    module = import_module("torch.distributed.rendezvous")
    handlers = getattr(module, "_rendezvous_handlers", {})
    of_torch = handlers.get("env")
    if of_torch is None:
        return

    def rendezvous(url: str, **named: Any) -> Any:
        if all(name in os.environ for name in VARIABLES) or "rank=" in url:
            return of_torch(url, **named)
        from collalgo.bootstrap.identity import BY_HAND, launcher_of

        if launcher_of(os.environ) in {None, BY_HAND}:
            return of_torch(url, **named)  # which says what is missing
        from collalgo.integrations.torch.rendezvous import rendezvous_by_launcher

        timeout = named.get("timeout", module.default_pg_timeout)
        return rendezvous_by_launcher(timeout)

    handlers["env"] = rendezvous


def _create(options: Any, backend_options: Any) -> Any:
    """Create a process group; the first one imports the backend."""
    from collalgo.integrations.torch.creation import create

    return create(options, backend_options)


def rendezvous_handler() -> Any:
    """The factory of the handler of ``torchrun --rdzv-backend=collalgo``."""

    def create_handler(parameters: Any) -> Any:
        from collalgo.integrations.torch.elastic import create

        return create(parameters)

    return create_handler
