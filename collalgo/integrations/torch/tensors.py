"""Convert tensors to arguments of calls, without a copy if possible."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: The dtypes of torch that NumPy has through ``ml_dtypes``: name, and integer type.
NARROW = {
    torch.bfloat16: ("bfloat16", torch.uint16),
    torch.float8_e4m3fn: ("float8_e4m3fn", torch.uint8),
    torch.float8_e4m3fnuz: ("float8_e4m3fnuz", torch.uint8),
    torch.float8_e5m2: ("float8_e5m2", torch.uint8),
    torch.float8_e5m2fnuz: ("float8_e5m2fnuz", torch.uint8),
}

#: Classes of tensors with memory of their own; those of other classes may have none.
PLAIN = (Tensor, torch.nn.Parameter)

#: The device of host memory in DLPack.
HOST = (1, 0)


def array_of(tensor: Tensor) -> Any:
    """The argument for a tensor: a NumPy array on its memory, or a GPU tensor itself.

    Raises
    ------
    TypeError
        If the tensor is sparse, or neither in host memory nor on a GPU.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_cuda and tensor.layout == torch.strided:
        return tensor
    if tensor.dtype in NARROW:
        import ml_dtypes

        name, word = NARROW[tensor.dtype]
        return _on_memory_of(tensor.view(word)).view(getattr(ml_dtypes, name))
    try:
        return _on_memory_of(tensor)
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"collalgo: a tensor of {tensor.dtype} on {tensor.device} cannot be "
            f"communicated ({error}); pass a dense tensor in host memory or on a "
            "CUDA device"
        ) from None


class DLPackView:
    """The memory of a tensor, through the DLPack protocol.

    A tensor could never be resized after ``tensor.numpy()``, but FSDP and hooks of DDP
    resize. ``Tensor.__dlpack__`` takes three times as long to make the same capsule.
    """

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Tensor):
        self._tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return HOST

    def __dlpack__(self, *, max_version: object = None, **_: object) -> Any:
        if max_version is None:
            return torch._C._to_dlpack(self._tensor)
        return torch._C._to_dlpack_versioned(self._tensor)


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is strided, in host memory, and without lazy conjugation."""
    return (
        type(tensor) in PLAIN
        and tensor.is_cpu
        and tensor.layout == torch.strided
        and not (tensor.is_conj() or tensor.is_neg())
    )


def _on_memory_of(tensor: Tensor) -> NDArray[Any]:
    """A NumPy array on the memory of a tensor."""
    plain = is_plain(tensor)
    array: NDArray[Any] = (
        np.from_dlpack(DLPackView(tensor)) if plain else tensor.numpy()
    )
    if not array.flags.writeable:  # NumPy before 2.1 cannot see that it is
        array = tensor.numpy()
    return array


def dtype_of(tensor: Tensor) -> "np.dtype[Any]":
    """The NumPy dtype of a tensor, on any device."""
    dtype: np.dtype[Any] = array_of(torch.empty(0, dtype=tensor.dtype)).dtype
    return dtype


def gpu_of(tensor: Tensor | None) -> torch.device | None:
    """The GPU of a tensor, or None."""
    return tensor.device if tensor is not None and tensor.is_cuda else None


def flat(tensor: Tensor) -> Tensor:
    """A tensor flattened to one dimension; a view if it is contiguous."""
    row = tensor.contiguous()
    return row if row.dim() == 1 else row.view(-1)  # a view costs a new tensor


def in_rows(row: Tensor, rows: int) -> Tensor:
    """A flat tensor as a matrix of ``rows`` rows."""
    return row.view(rows, row.numel() // rows)


def split_counts(tensor: Tensor, splits: list[int], parts: int) -> list[int]:
    """The elements of each part of a tensor split by rows; evenly without splits."""
    rows = len(tensor) if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    return [split * width for split in splits or [rows // parts] * parts]


def row_of(tensors: Sequence[Tensor]) -> Tensor | None:
    """Tensors that are adjacent in one storage, as one flat tensor; else None."""
    first, end = tensors[0], tensors[0].data_ptr()
    if len(tensors) == 1:
        return flat(first) if first.is_contiguous() else None
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
    return first.as_strided((sum(tensor.numel() for tensor in tensors),), (1,))


class Target:
    """The memory that a result is written to: the output tensors' own if possible.

    Parameters
    ----------
    tensors
        The output tensors.
    rows
        The number of rows of the result; 0 for a flat result.
    """

    def __init__(self, tensors: Sequence[Tensor], rows: int = 0):
        self._tensors = tensors
        row = row_of(tensors)
        self._apart = row is None
        if row is None:
            row = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
        self.tensor = in_rows(row, rows) if rows else row

    def finish(self) -> None:
        """Copy the result to the output tensors, unless it was written there."""
        if self._apart:
            counts = [tensor.numel() for tensor in self._tensors]
            parts = self.tensor.view(-1).split(counts)
            for tensor, part in zip(self._tensors, parts, strict=True):
                tensor.detach().copy_(part.view(tensor.shape))


def source_of(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors as one flat tensor, copied only if they are not adjacent."""
    row = row_of(tensors)
    if row is not None:
        return row
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
