"""Convert tensors to arguments of calls, without a copy if possible."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from collalgo._kernels.comm.tensors import tensor_array
from collalgo.integrations.torch.copies import Copy, copies, in_this_mode

#: The dtypes of torch that NumPy has through ``ml_dtypes``: name, and integer type.
NARROW = {
    torch.bfloat16: ("bfloat16", torch.uint16),
    torch.float8_e4m3fn: ("float8_e4m3fn", torch.uint8),
    torch.float8_e4m3fnuz: ("float8_e4m3fnuz", torch.uint8),
    torch.float8_e5m2: ("float8_e5m2", torch.uint8),
    torch.float8_e5m2fnuz: ("float8_e5m2fnuz", torch.uint8),
    torch.float8_e8m0fnu: ("float8_e8m0fnu", torch.uint8),
}

#: The dtypes of which elements only move, and the integers in their place.
MOVED = {
    torch.bits8: torch.uint8,
    torch.bits16: torch.int16,
    torch.complex32: torch.int32,
    torch.float4_e2m1fn_x2: torch.uint8,
}

#: The quantised dtypes of torch, and the integers of their elements.
QUANTISED = {
    torch.qint8: torch.int8,
    torch.quint8: torch.uint8,
    torch.qint32: torch.int32,
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
    if (array := tensor_array(tensor)) is not None:
        return array
    if tensor.is_cuda and tensor.layout == torch.strided:
        return tensor
    if (narrow := narrow_array(tensor)) is not None:
        return narrow
    try:
        return _on_memory_of(tensor)
    except (TypeError, RuntimeError, BufferError) as error:
        raise TypeError(
            f"collalgo: a tensor of {tensor.dtype} on {tensor.device} cannot be "
            f"communicated ({error}); pass a dense tensor in host memory or on a "
            "CUDA device"
        ) from None


def narrow_array(tensor: Tensor) -> NDArray[Any] | None:
    """An array on a tensor of a dtype that DLPack does not have; None of others.

    Elements that only move are structures of one field with the name of the dtype, and
    for quantised ones the scale and the zero point, so that ranks compare these.
    """
    if tensor.requires_grad or not tensor.is_cpu or tensor.layout != torch.strided:
        return None
    if tensor.dtype in NARROW:
        import ml_dtypes

        name, word = NARROW[tensor.dtype]
        found = _on_memory_of(tensor.view(word)).view(getattr(ml_dtypes, name))
        return cast("NDArray[Any]", found)
    if tensor.dtype in QUANTISED and tensor.qscheme() == torch.per_tensor_affine:
        place = tensor.storage_offset(), tensor.shape, tensor.stride()
        words = torch.empty(0, dtype=QUANTISED[tensor.dtype])
        array = _on_memory_of(words.set_(tensor.untyped_storage(), *place))
        scale = f"scale {tensor.q_scale()!r}, zero point {tensor.q_zero_point()}"
        return array.view([(f"{tensor.dtype}, {scale}", array.dtype)])
    if tensor.dtype in MOVED:
        array = _on_memory_of(tensor.view(MOVED[tensor.dtype]))
        return array.view([(str(tensor.dtype), array.dtype)])
    return None


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
        and not is_lazy(tensor)
    )


def is_lazy(tensor: Tensor) -> bool:
    """Whether the memory of a tensor holds its conjugate or negative: a lazy view."""
    return bool(tensor.is_neg() or tensor.is_conj())


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


def gpu_of(tensor: Tensor) -> torch.device | None:
    """The GPU of a tensor, or None."""
    return tensor.device if tensor.is_cuda else None


def flat(tensor: Tensor) -> Tensor:
    """A tensor flattened to one dimension; a view if it is contiguous."""
    row = tensor.contiguous()
    return row if row.dim() == 1 else row.view(-1)  # a view costs a new tensor


def in_rows(row: Tensor, rows: int) -> Tensor:
    """A flat tensor as a matrix of ``rows`` rows."""
    return row.view(rows, row.numel() // rows)


def split_counts(tensor: Tensor, splits: list[int], parts: int) -> list[int]:
    """The elements of each part of a tensor split by rows; evenly without splits.

    Raises
    ------
    ValueError
        If the splits do not add up to the rows, or the rows do not divide evenly.
    """
    rows = len(tensor) if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    if not splits and rows % parts:
        raise ValueError(
            f"all_to_all_single: a tensor of {rows} rows cannot be split evenly for "
            f"{parts} ranks; pass split sizes"
        )
    splits = splits or [rows // parts] * parts
    if len(splits) != parts or sum(splits) != rows:
        raise ValueError(
            f"all_to_all_single: {len(splits)} split sizes {splits} add up to "
            f"{sum(splits)}, but there are {parts} ranks and {rows} rows; pass one "
            "for each rank, with the number of rows as their sum"
        )
    return [split * width for split in splits]


class Operand(NamedTuple):
    """What a call reads or writes: the user's memory, or a copy of it.

    Attributes
    ----------
    tensor
        The memory of the call.
    pack, unpack
        Copy from and to the user's tensors when the call runs, since earlier
        calls may still write them. None if the memory is the user's.
    """

    tensor: Tensor
    pack: Copy | None = None
    unpack: Copy | None = None


def in_place(tensor: Tensor) -> Operand:
    """A tensor as the operand of a call in place; a copy if it is a lazy view."""
    if not is_lazy(tensor):
        return Operand(tensor)
    inside, copy = [tensor.detach()], [tensor.new_empty(tensor.shape)]
    return Operand(copy[0], copies(copy, inside), copies(inside, copy))


def joined(tensors: Sequence[Tensor], rows: int = 0) -> Operand:
    """Tensors one after the other: in place if they are adjacent, else in a copy.

    Parameters
    ----------
    tensors
        Of one dtype and device.
    rows
        The number of rows of the operand; 0 for a flat one.
    """
    row = row_of(tensors)
    if row is not None:
        return Operand(in_rows(row, rows) if rows else row)
    row = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
    parts = [
        part.view(tensor.shape)
        for tensor, part in zip(
            tensors, row.split([each.numel() for each in tensors]), strict=True
        )
    ]
    inside = [tensor.detach() for tensor in tensors]
    return Operand(
        in_rows(row, rows) if rows else row,
        copies(parts, inside),
        copies(inside, parts),
    )


def scaled(operand: Operand, factor: Any) -> Operand:
    """The product of an operand and a factor, in a copy."""
    tensor, pack, _ = operand
    product = torch.empty_like(tensor, requires_grad=False)

    def multiply() -> None:
        if pack is not None:
            pack()
        is_float8 = tensor.is_floating_point() and tensor.element_size() == 1
        factors = tensor.float() if is_float8 else tensor  # float8 has no product
        product.copy_(factors.detach() * factor)

    return Operand(product, in_this_mode(multiply))


def row_of(tensors: Sequence[Tensor]) -> Tensor | None:
    """Tensors that are adjacent in one storage, as one flat tensor; else None.

    Raises
    ------
    TypeError
        If they differ in dtype or device.
    """
    first, end = tensors[0], tensors[0].data_ptr()
    if len(tensors) == 1:
        whole = first.is_contiguous() and not is_lazy(first)
        return flat(first) if whole else None
    memory, adjacent = first.untyped_storage().data_ptr(), True
    for tensor in tensors:
        _check_alike(first, tensor)
        adjacent = (
            adjacent
            and tensor.data_ptr() == end
            and tensor.is_contiguous()
            and not is_lazy(tensor)
            and tensor.untyped_storage().data_ptr() == memory
        )
        end += tensor.numel() * tensor.element_size()
    if not adjacent:
        return None
    return first.as_strided((sum(tensor.numel() for tensor in tensors),), (1,))


def _check_alike(first: Tensor, other: Tensor) -> None:
    """Check that two tensors of a list have one dtype and device."""
    if other.dtype != first.dtype or other.device != first.device:
        raise TypeError(
            f"collalgo: a list has tensors of {first.dtype} on {first.device} and of "
            f"{other.dtype} on {other.device}; pass tensors of one dtype and device"
        )
