"""The calls between the ranks of a group of vLLM."""

import torch
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class CollalgoCommunicator(CpuCommunicator):
    """The communicator of vLLM for CPUs, on groups of this library.

    The calls that are not here are those of torch on the group.
    """

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum, in new memory: an op of torch must not return its argument."""
        found = torch.empty_like(input_, memory_format=torch.contiguous_format)
        self.device_group.comm.allreduce(input_, out=found)
        return found

    def all_gather(self, input_: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The tensors of all ranks, joined on an axis."""
        return torch.cat(tuple(self.device_group.comm.allgather(input_)), dim)

    def gather(
        self, input_: torch.Tensor, dst: int = 0, dim: int = -1
    ) -> torch.Tensor | None:
        """The same at one rank of the group, and None at the others."""
        rows = self.device_group.comm.gather(input_, dst)
        return None if rows is None else torch.cat(tuple(rows), dim)

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        """Have no shared memory of vLLM."""
        return False
