"""The entry point ``torch.backends``, which torch loads at every ``import torch``.

It registers the name of the backend and imports nothing else of the package: a broken
installation raises its error when a process group is created.
"""

from typing import Any


def register() -> None:
    """Register the backend ``collalgo``; torch calls this when it is imported."""
    import torch.distributed as dist

    if dist.is_available() and "COLLALGO" not in dist.Backend._plugins:
        dist.Backend.register_backend(
            "collalgo", _create, extended_api=True, devices=["cpu", "cuda"]
        )


def _create(options: Any, backend_options: Any) -> Any:
    """Create a process group; the first one imports the backend."""
    from collalgo.integrations.torch.creation import create

    return create(options, backend_options)
