"""A backend of ``torch.distributed``: ``init_process_group("collalgo")``.

Torch finds the backend by an entry point of the package. It serves tensors in host
memory and on CUDA devices, without a copy if they are contiguous. The ranks connect
through the store of torch; ranks on one host use shared memory, others use UCX.
"""

from collalgo.integrations.torch.group import CollalgoGroup
from collalgo.integrations.torch.options import Options
from collalgo.integrations.torch_entry import register

__all__ = ["CollalgoGroup", "Options", "register"]

register()
