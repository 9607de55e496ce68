"""The copies between the user's tensors and the memory of calls."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor

#: A copy between the user's tensors and the memory of a call.
Copy = Callable[[], None]


def copies(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> Copy:
    """The copies of some tensors into others of the same shapes."""

    def copy() -> None:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)

    return in_this_mode(copy)


def in_this_mode(copy: Copy) -> Copy:
    """A copy in the inference mode of this thread, as another may make it."""
    is_on = torch.is_inference_mode_enabled()
    return cast(Copy, torch.inference_mode()(copy)) if is_on else copy
