"""Arrays of NumPy on the memory of tensors, without a copy where there can be none."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

#: The dtypes of torch that NumPy knows by way of ``ml_dtypes``, and their words.
NARROW = {
    torch.bfloat16: ("bfloat16", torch.uint16),
    torch.float8_e4m3fn: ("float8_e4m3fn", torch.uint8),
    torch.float8_e4m3fnuz: ("float8_e4m3fnuz", torch.uint8),
    torch.float8_e5m2: ("float8_e5m2", torch.uint8),
    torch.float8_e5m2fnuz: ("float8_e5m2fnuz", torch.uint8),
}


def array_of(tensor: Tensor) -> Array:
    """A NumPy array on the memory of a tensor.

    Raises
    ------
    TypeError
        If the tensor is sparse, or not in the memory of the host.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype in NARROW:
        import ml_dtypes

        name, word = NARROW[tensor.dtype]
        narrow: Array = tensor.view(word).numpy().view(getattr(ml_dtypes, name))
        return narrow
    try:
        array: Array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"collalgo: a tensor of {tensor.dtype} on {tensor.device} cannot be "
            f"communicated ({error}); pass a dense tensor in the memory of the host"
        ) from None
    return array


def flat(tensor: Tensor) -> Array:
    """The elements of a contiguous tensor in one row, in its own memory."""
    return array_of(tensor.view(-1))


def row_of(tensors: Sequence[Tensor]) -> Array | None:
    """The elements of tensors that lie one behind the other in one memory, or None."""
    first, end = tensors[0], tensors[0].data_ptr()
    memory = first.untyped_storage().data_ptr()
    for tensor in tensors:
        if (
            tensor.data_ptr() != end
            or not tensor.is_contiguous()
            or tensor.dtype != first.dtype
            or tensor.untyped_storage().data_ptr() != memory
        ):
            return None
        end += tensor.numel() * tensor.element_size()
    total = sum(tensor.numel() for tensor in tensors)
    return array_of(first.as_strided((total,), (1,)))


class Target:
    """The memory that a result goes to on its way into tensors: if possible, theirs.

    Parameters
    ----------
    tensors
        Where the result belongs.
    rows
        Into how many rows it is to be divided; 0 leaves it in one.
    """

    def __init__(self, tensors: Sequence[Tensor], rows: int = 0):
        self._tensors = tensors
        row = row_of(tensors)
        self._apart = row is None
        if row is None:
            total = sum(tensor.numel() for tensor in tensors)
            row = np.empty(total, array_of(tensors[0][..., :0]).dtype)
        self.array = row.reshape(rows, -1) if rows else row

    def finish(self) -> None:
        """Bring the result into the tensors if it is not there."""
        if self._apart:
            row, start = self.array.reshape(-1), 0
            for tensor in self._tensors:
                part = row[start : start + tensor.numel()]
                array_of(tensor)[...] = part.reshape(tensor.shape)
                start += tensor.numel()


def source_of(tensors: Sequence[Tensor]) -> Array:
    """The elements of all the tensors in one row, copied only if they are scattered."""
    row = row_of(tensors)
    if row is not None:
        return row
    return np.concatenate([array_of(tensor).reshape(-1) for tensor in tensors])
