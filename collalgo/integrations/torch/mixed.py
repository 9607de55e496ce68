"""Process groups with another backend for some devices: ``cpu:collalgo,cuda:nccl``."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import wraps
from types import FrameType
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from collalgo.comm.communicator import Communicator
from collalgo.integrations.torch.group import CollalgoGroup

#: The calls that go to the backend of their first tensor or device.
CALLS = (
    "allreduce", "allreduce_coalesced", "reduce", "broadcast", "allgather",
    "all_gather_single", "_allgather_base", "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced", "allgather_coalesced", "gather", "scatter",
    "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced", "alltoall",
    "all_to_all_single", "alltoall_base", "send", "recv", "recv_anysource",
    "_start_coalescing", "_end_coalescing",
)  # fmt: skip


class MixedGroup(CollalgoGroup):
    """A process group of collalgo, with backends of torch for other devices.

    Parameters
    ----------
    comm
        The communicator.
    store
        The store of torch for this group.
    others
        By the type of the device, the process group of torch that has its backend.
    own
        The types of the devices that collalgo serves.
    """

    def __init__(
        self,
        comm: Communicator,
        store: dist.Store,
        others: dict[str, dist.ProcessGroup],
        own: Iterable[str],
    ):
        super().__init__(comm, store)
        self.others = others
        self._own = list(own)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device(name) for name in (*self._own, *self.others)]

    def _get_backend(self, device: torch.device) -> Any:
        other = self.others.get(device.type)
        return self if other is None else other._get_backend(device)

    def split_group(self, *_: Any, **_named: Any) -> NoReturn:
        """Refuse: not all backends of torch can split a group."""
        raise NotImplementedError(
            "split_group: this group has several backends; call dist.new_group"
        )

    def abort(self) -> None:
        with ExitStack() as rest:
            for other in self.others.values():
                rest.callback(other.abort)
            super().abort()

    def shutdown(self) -> None:
        with ExitStack() as rest:
            for other in self.others.values():
                rest.callback(other.shutdown)
            super().shutdown()

    def set_timeout(self, timeout: timedelta) -> None:
        super().set_timeout(timeout)
        for other in self.others.values():
            other.set_timeout(timeout)


def _by_device(name: str) -> Callable[..., Any]:
    """The method of this name, of the group that serves the device of its tensors."""
    ours = getattr(CollalgoGroup, name)

    @wraps(ours)
    def made(self: MixedGroup, *args: Any, **named: Any) -> Any:
        other = self.others.get(_device_of([*args, *named.values()]))
        if other is None:
            return ours(self, *args, **named)
        return getattr(other, name)(*args, **named)

    return made


for _name in CALLS:
    setattr(MixedGroup, _name, _by_device(_name))


def _device_of(arguments: Iterable[Any]) -> str:
    """The type of the device of the first tensor, or of a device; "" without any."""
    for each in arguments:
        if isinstance(each, Tensor):
            return str(each.device.type)
        if isinstance(each, torch.device):
            return str(each.type)
        if isinstance(each, list | tuple) and (found := _device_of(each)):
            return found
    return ""


def asked_backends() -> dict[str, str]:
    """The backend of each device in the call of torch that creates a group.

    Torch tells a backend neither its device nor the others, so that they are read from
    the frame of the call.
    """
    creating = distributed_c10d._new_process_group_helper.__code__
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not creating:
        frame = frame.f_back
    config = None if frame is None else frame.f_locals.get("backend_config")
    return {} if config is None else dict(config.get_device_backend_map())


@contextmanager
def other_groups(
    backends: dict[str, str], opts: Any, backend_options: Any
) -> Iterator[dict[str, dist.ProcessGroup]]:
    """The process groups of torch for the devices that have another backend.

    They are made before the ranks connect, so one that is missing is refused first,
    and shut down if the body raises.

    Parameters
    ----------
    backends
        The backend of each device.
    opts
        What torch passes to a backend.
    backend_options
        The options of the user for the other backend, or None.

    Raises
    ------
    RuntimeError
        If this torch does not have a backend.
    NotImplementedError
        For a backend that is not of torch.
    """
    groups: dict[str, dist.ProcessGroup] = {}
    try:
        for device, backend in backends.items():
            if backend != "collalgo":
                groups[device] = _other_group(device, backend, opts, backend_options)
        yield groups
    except BaseException:
        with ExitStack() as rest:
            for group in groups.values():
                rest.callback(group.shutdown)
        raise


def _other_group(
    device: str, backend: str, opts: Any, backend_options: Any
) -> dist.ProcessGroup:
    """The process group of torch for a device that has another backend."""
    if backend not in MAKERS:
        raise NotImplementedError(
            f"collalgo: {device}:{backend} cannot be beside collalgo; pass "
            f"{device}:{' or '.join(MAKERS)}, or collalgo for all devices"
        )
    store = dist.PrefixStore(f"beside/{device}/", opts.store)
    group = dist.ProcessGroup(store, opts.group_rank, opts.group_size)
    kind = getattr(dist.ProcessGroup.BackendType, backend.upper())
    group._set_default_backend(kind)
    made = MAKERS[backend](store, opts, backend_options)
    group._register_backend(torch.device(device), kind, made)
    return group


def _gloo(store: dist.Store, opts: Any, _options: Any) -> Any:
    rank, size = opts.group_rank, opts.group_size
    return dist.ProcessGroupGloo(store, rank, size, timeout=opts.timeout)


def _nccl(store: dist.Store, opts: Any, options: Any) -> Any:
    if not dist.is_nccl_available():
        raise RuntimeError(
            "collalgo: nccl was asked for beside it, which this torch does not have; "
            "install a torch with CUDA, or pass cpu:collalgo"
        )
    options = options or dist.ProcessGroupNCCL.Options()
    options._timeout = opts.timeout
    return dist.ProcessGroupNCCL(store, opts.group_rank, opts.group_size, options)


#: The backends of torch that can serve other devices.
MAKERS = {"gloo": _gloo, "nccl": _nccl}
