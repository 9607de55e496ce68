"""A backend of ``torch.distributed``: ``init_process_group("collalgo")``.

With collalgo installed, torch finds it by itself. It serves tensors in the memory of
the host and on CUDA devices, without copies where they are contiguous. Ranks meet over
the store of torch; those of one host then share memory, others use UCX.
"""

import torch.distributed as dist

from collalgo.integrations.torch.creation import create
from collalgo.integrations.torch.group import CollalgoGroup

__all__ = ["CollalgoGroup", "register"]


def register() -> None:
    """Let torch know the backend; torch calls this itself when it is imported."""
    if dist.is_available() and "COLLALGO" not in dist.Backend._plugins:
        dist.Backend.register_backend(
            "collalgo", create, extended_api=True, devices=["cpu", "cuda"]
        )


register()
