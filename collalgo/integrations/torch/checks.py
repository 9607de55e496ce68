"""Checks of the tensors of calls, in the names that torch gives its arguments."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from collalgo.comm.communicator import Communicator


class Passed(NamedTuple):
    """A tensor that was passed to a call, and the name of its argument."""

    name: str
    tensor: Tensor

    @property
    def shape(self) -> str:
        return str(tuple(self.tensor.shape))


def check_one_each(tensors: Sequence[Tensor], size: int, call: str, name: str) -> None:
    """Check that a list has a tensor for each rank."""
    if len(tensors) != size:
        raise ValueError(
            f"{call}: {name} has {len(tensors)} tensors, but the group has {size} "
            "ranks; pass one for each rank"
        )


def check_alike(
    tensors: Sequence[Tensor], name: str, own: Passed, call: str, rank: int | None
) -> None:
    """Check the dtypes of a list, and the shape of one of its tensors, or of all.

    Raises
    ------
    TypeError, ValueError
        If a tensor has another dtype than ``own``, or one of ``rank``, by default of
        any rank, another number of elements.
    """
    for other, tensor in enumerate(tensors):
        passed = Passed(f"{name}[{other}]", tensor)
        _check_dtype(passed, own, call)
        if rank in (None, other) and tensor.numel() != own.tensor.numel():
            raise ValueError(
                f"{call}: {passed.name} has shape {passed.shape}, but {own.name} has "
                f"{own.shape}; pass tensors of one shape"
            )


def check_whole(whole: Passed, part: Passed, size: int, call: str) -> None:
    """Check that a tensor has the elements of a part for each rank.

    Raises
    ------
    TypeError, ValueError
        If the dtypes differ, or it has more or fewer elements.
    """
    _check_dtype(whole, part, call)
    needed = part.tensor.numel() * size
    if whole.tensor.numel() != needed:
        raise ValueError(
            f"{call}: {whole.name} has shape {whole.shape}, {whole.tensor.numel()} "
            f"elements, but {part.name} has {part.shape} and the group {size} ranks; "
            f"pass one of {needed} elements"
        )


def check_at_root(
    tensors: Sequence[Tensor], name: str, own: Passed, comm: Communicator, root: int
) -> bool:
    """Whether this rank is the root, which alone has a tensor for each rank.

    Raises
    ------
    TypeError, ValueError
        If another rank has some too, or those of the root differ from its own.
    """
    call = name.removesuffix("_list")
    if comm.rank == root:
        check_one_each(tensors, comm.size, call, name)
        check_alike(tensors, name, own, call, None)
    elif tensors:
        raise ValueError(
            f"{call}: rank {comm.rank} passed a {name} of {len(tensors)} tensors, but "
            f"the root is rank {root}; pass the list on the root only"
        )
    return comm.rank == root


def check_pairs(outputs: Sequence[object], inputs: Sequence[object], call: str) -> None:
    """Check that a coalesced call has an output for each input."""
    if len(outputs) != len(inputs):
        raise ValueError(
            f"{call}: got {len(outputs)} outputs, but {len(inputs)} inputs; pass one "
            "output for each input"
        )


def _check_dtype(passed: Passed, other: Passed, call: str) -> None:
    if passed.tensor.dtype != other.tensor.dtype:
        raise TypeError(
            f"{call}: {passed.name} is of {passed.tensor.dtype}, but {other.name} is "
            f"of {other.tensor.dtype}; pass tensors of one dtype"
        )
