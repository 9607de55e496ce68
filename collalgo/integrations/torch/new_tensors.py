"""New tensors for the results of calls."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from collalgo.integrations.torch.tensors import QUANTISED


def new_like(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """A new tensor of another shape, and the dtype and device of a tensor."""
    if tensor.dtype not in QUANTISED:
        return torch.empty(tuple(shape), dtype=tensor.dtype, device=tensor.device)
    quantiser = {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    new = torch._empty_affine_quantized(list(shape), **quantiser, dtype=tensor.dtype)
    return cast(Tensor, new)


def empty(dtype: str, shape: Sequence[int]) -> Tensor:
    """A new tensor of a dtype, named as torch does.

    Raises
    ------
    TypeError
        If this version of torch has no such dtype.
    """
    found = getattr(torch, dtype.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"broadcast: torch {torch.__version__} has no dtype {dtype}")
    return torch.empty(tuple(shape), dtype=found)
