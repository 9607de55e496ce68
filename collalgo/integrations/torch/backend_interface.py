"""What torch asks of a process group and of the backend of its devices, which are one.

A backend in Python replaces the process group of torch, which would have backends.
"""

from typing import Any

import torch
import torch.distributed as dist


class BackendInterface(dist.ProcessGroup):
    """A process group that is the backend of its devices.

    Parameters
    ----------
    rank, size
        Of the group.
    store
        The store of torch for this group.
    """

    # What the device mesh, FSDP and batches of messages ask a backend.
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, rank: int, size: int, store: dist.Store):
        super().__init__(rank, size)
        self._store = store
        self._name = self._description = ""

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices whose tensors it takes; the first is that of objects."""
        names = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        return [torch.device(name) for name in names]

    def _get_backend(self, _device: torch.device) -> Any:
        """The backend of a device."""
        return self

    def supports_tensor_alloc(self, _device: torch.device) -> bool:
        return False

    def getBackendName(self) -> str:
        return "collalgo"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def get_group_store(self) -> dist.Store:
        return self._store
