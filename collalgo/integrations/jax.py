"""New arrays of JAX for the results of calls, in host memory."""

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

#: The alignment of memory that JAX takes over, in bytes.
ALIGNMENT = 64


def new_array(
    shape: tuple[int, ...], dtype: np.dtype[Any], caller: str
) -> tuple[jax.Array, NDArray[Any]]:
    """A new array of JAX, and an array of NumPy that writes to the same memory.

    A call writes the result before its caller gets the array of JAX, which does not
    change any more from then on.

    Raises
    ------
    TypeError
        If JAX has no array on memory of NumPy for this dtype.
    """
    memory = _aligned(shape, dtype)
    device = jax.local_devices(backend="cpu")[0]
    with jax.enable_x64(True):  # so that the dtype stays as it is
        found = jax.device_put(memory, device, may_alias=True)
    if memory.nbytes and found.unsafe_buffer_pointer() != memory.ctypes.data:
        raise TypeError(
            f"{caller}: JAX {jax.__version__} has no arrays of {dtype} on memory of "
            "NumPy; pass numpy.asarray(x)"
        )
    return found, memory


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new array of NumPy whose address suits JAX."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes].view(dtype).reshape(shape)
