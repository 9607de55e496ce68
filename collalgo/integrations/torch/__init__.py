"""A backend of ``torch.distributed``: ``init_process_group("collalgo")``.

With collalgo installed, torch finds it by itself. It serves tensors in the memory of
the host and on CUDA devices, without copies where they are contiguous. Ranks meet over
the store of torch; those of one host then share memory, others use UCX.
"""

from collalgo.integrations.torch.group import CollalgoGroup
from collalgo.integrations.torch_entry import register

__all__ = ["CollalgoGroup", "register"]

register()
