"""The types of the arguments of calls, for type checkers and readers."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.call_runner import CommunicatorBase
from collalgo.engine.user_op import Op

if TYPE_CHECKING:
    import mpi4py.MPI
    from typing_extensions import Buffer

#: A communicator. Its class is made of the functions that take one, so it imports them
#: and not they it.
Communicator: TypeAlias = CommunicatorBase


class SupportsDLPack(Protocol):
    """An array with the protocol of DLPack: of NumPy, CuPy, torch, JAX."""

    def __dlpack__(self, *args: Any, **named: Any) -> Any: ...


class SupportsCudaArray(Protocol):
    """An array with the interface of CUDA arrays, in the memory of a device."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...


#: An array as calls take it.
ArrayLike: TypeAlias = "Buffer | SupportsDLPack | SupportsCudaArray"

#: An array, or a list, tuple or dictionary of arrays or of further ones.
Tree: TypeAlias = "ArrayLike | Sequence[Any] | Mapping[Any, Any]"

#: An array as calls return it: one of the arguments, or a new array of its kind.
Array: TypeAlias = Any

#: The numbers of rows for each rank, or a table of them for all pairs of ranks.
CountsLike: TypeAlias = (
    Sequence[int] | Sequence[Sequence[int]] | NDArray[np.integer[Any]]
)

#: The names of the operations.
OpName: TypeAlias = Literal[
    "sum",
    "prod",
    "min",
    "max",
    "avg",
    "band",
    "bor",
    "bxor",
    "land",
    "lor",
    "lxor",
]


class NamedOp(Protocol):
    """An op of torch, as ``torch.distributed.ReduceOp.SUM``."""

    @property
    def name(self) -> str: ...


#: A function of two arrays that returns their reduction.
Combination: TypeAlias = Callable[[Any, Any], Any]

#: An operation: its name in any case, an op of NumPy, mpi4py or torch, or a function.
OpLike: TypeAlias = (
    "OpName | str | np.ufunc | mpi4py.MPI.Op | NamedOp | Op | Combination"
)
