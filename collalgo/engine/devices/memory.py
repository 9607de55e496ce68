"""The memory of arrays on CUDA devices, of any package."""

from typing import Any

from collalgo.base.foreign import is_immutable, package_of
from collalgo.base.hooks import hook
from collalgo.engine.devices.runtime import Memory


def memory_of(buf: Any, cupy: Any, caller: str) -> Memory:
    """The memory of an array on a device, by CuPy.

    Raises
    ------
    ValueError
        If its elements are not contiguous.
    """
    package = package_of(buf)
    if package == "torch":
        return _memory_of_torch(buf, caller)
    writeable = not is_immutable(buf)
    if isinstance(buf, cupy.ndarray):
        array = buf
    elif hasattr(buf, "__cuda_array_interface__"):
        array = cupy.asarray(buf)
        _, read_only = buf.__cuda_array_interface__["data"]
        writeable &= not read_only
    else:
        array = cupy.from_dlpack(buf)
    _check_contiguous(array.flags.c_contiguous, buf, caller)
    return Memory(buf, array.data.ptr, array.shape, array.dtype, writeable)


def _memory_of_torch(tensor: Any, caller: str) -> Memory:
    """The memory of a torch tensor, also of dtypes that CuPy does not know."""
    _check_contiguous(tensor.is_contiguous(), tensor, caller)
    shape = tuple(tensor.shape)
    return Memory(tensor, tensor.data_ptr(), shape, hook("dtype of torch")(tensor))


def _check_contiguous(is_contiguous: bool, buf: Any, caller: str) -> None:
    if not is_contiguous:
        raise ValueError(
            f"{caller}: this {type(buf).__name__} is not contiguous; pass a contiguous "
            "copy of it"
        )
