"""A worker of vLLM on CPUs without its shared memory, so that it uses gloo."""

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
from vllm.v1.worker.cpu_worker import CPUWorker


class GlooWorker(CPUWorker):  # type: ignore[misc]
    """vLLM's own worker, whose ranks are told apart as those of several hosts are."""

    def init_device(self) -> None:
        CpuCommunicator._all_group_ranks_share_shm_group_name = lambda _: False
        super().init_device()
