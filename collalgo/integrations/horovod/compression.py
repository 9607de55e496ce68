"""Compression of tensors for their reduction."""

from typing import Any

import torch
from torch import Tensor


class NoneCompressor:
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Any]:
        """The tensor to reduce, and what :meth:`decompress` needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, _context: Any) -> Tensor:
        """The result of a reduction as it was before."""
        return tensor


class FP16Compressor(NoneCompressor):
    """Reduces floats in 16 bits; sums of several are rounded once."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, torch.dtype]:
        """The tensor in float16 if it has floats, and its dtype."""
        dtype = tensor.dtype
        return tensor.half() if dtype.is_floating_point else tensor, dtype

    @staticmethod
    def decompress(tensor: Tensor, dtype: torch.dtype) -> Tensor:
        """The result in the dtype from before."""
        return tensor.to(dtype)


class Compression:
    """The ways of compression; another class with the same two methods works, too."""

    none = NoneCompressor
    fp16 = FP16Compressor
