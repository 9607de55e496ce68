"""Checks of the arguments of calls of torch that the library cannot make itself."""

from collections.abc import Sequence

from torch import Tensor

from collalgo.comm.communicator import Communicator


def check_one_each(tensors: Sequence[Tensor], size: int, call: str) -> None:
    """Check that there is a tensor for each rank."""
    if len(tensors) != size:
        raise ValueError(
            f"{call}: got {len(tensors)} tensors for {size} ranks; pass one for each"
        )


def check_at_root(
    tensors: Sequence[Tensor], own: Tensor, comm: Communicator, root: int, call: str
) -> bool:
    """Whether this rank is the root, which alone has a tensor for each rank.

    Raises
    ------
    ValueError
        If another rank has some too, or those of the root differ in length.
    """
    if comm.rank != root:
        if tensors:
            raise ValueError(
                f"{call}: rank {comm.rank} passed a list of {len(tensors)} tensors but "
                f"the root is rank {root}; pass the list on the root only"
            )
        return False
    check_one_each(tensors, comm.size, call)
    for other, tensor in enumerate(tensors):
        if tensor.numel() != own.numel():
            raise ValueError(
                f"{call}: the tensor for rank {other} has {tensor.numel()} elements "
                f"but that of the root has {own.numel()}; pass tensors of one length"
            )
    return True
