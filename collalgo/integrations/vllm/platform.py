"""The platform that vLLM creates while it is being imported."""

from typing import Any

from vllm import platforms
from vllm.utils.import_utils import resolve_obj_by_qualname

from collalgo.integrations import torch_entry
from collalgo.integrations.vllm.entry import NAME

torch_entry.register()

#: vLLM's own platform for these CPUs.
CpuPlatform: Any = resolve_obj_by_qualname(platforms.cpu_platform_plugin())


class CollalgoPlatform(CpuPlatform):
    """vLLM's platform of CPUs with the calls of this library."""

    dist_backend = NAME

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "collalgo.integrations.vllm.communicator.CollalgoCommunicator"

    @classmethod
    def use_custom_op_collectives(cls) -> bool:
        """Hide the calls from Dynamo, which could not trace them, where it runs.

        An op of torch costs tens of microseconds, more than a short call.
        """
        from vllm.config import CompilationMode, get_current_vllm_config_or_none

        config = get_current_vllm_config_or_none()
        return config is None or config.compilation_config.mode != CompilationMode.NONE
