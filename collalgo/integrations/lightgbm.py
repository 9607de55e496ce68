"""LightGBM over the collectives of a communicator, in place of its sockets."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.call_runner import CommunicatorBase
from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo._kernels.integrations.lightgbm import Network, ReducerReduction
from collalgo.comm.current import resolve
from collalgo.comm.types import Communicator
from collalgo.engine.user_op import Op

#: The parameter of LightGBM that selects how a tree is learned, and its other names.
TREE_LEARNER = ("tree_learner", "tree", "tree_type", "tree_learner_type")

#: The names of the number of ranks.
NUM_MACHINES = ("num_machines", "num_machine")

#: ``std::__throw_runtime_error(const char *)`` of libstdc++.
THROWING = "_ZSt21__throw_runtime_errorPKc"

#: The form of a reducer of LightGBM.
_REDUCER = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int32
)


class ReducerOp(Op):
    """The op of a reducer, a function of LightGBM in C++.

    Parameters
    ----------
    address
        Its address.
    itemsize
        Bytes of one element.
    """

    def __init__(self, address: int, itemsize: int):
        super().__init__(
            partial(_reduce_all, _REDUCER(address), itemsize),
            commute=True,
            name="reducer of LightGBM",
            dtype=f"V{itemsize}",
        )
        self._reducer = address

    def reduction(self, dtype: np.dtype[Any]) -> Reduction:
        """The kernel, which calls the reducer without the GIL."""
        return ReducerReduction(self._reducer, dtype.itemsize)


def _reduce_all(
    reducer: Any, itemsize: int, left: NDArray[Any], right: NDArray[Any]
) -> NDArray[Any]:
    """Reduce elements of a size that no kernel has; the reducer writes to ``left``."""
    reducer(right.ctypes.data, left.ctypes.data, itemsize, left.nbytes)
    return left


@contextmanager
def network(
    comm: Communicator | None = None, *, reproducible: bool = False
) -> Iterator[dict[str, int]]:
    """Let LightGBM communicate over a communicator, in this thread.

    Parameters
    ----------
    comm
        The communicator; by default the world. All its ranks train at the same time.
    reproducible
        Combine the histograms in the order of the ranks. The bits of the sums then
        depend neither on the algorithm nor on the machine.

    Yields
    ------
    dict
        The parameters that LightGBM needs in addition: ``num_machines``.

    Raises
    ------
    ImportError
        Without LightGBM; it comes with ``pip install 'collalgo[lightgbm]'``.
    CollalgoError
        At the end, in place of the error of LightGBM, if a call of the network has
        failed: :class:`~collalgo.PeerFailed` if a rank is gone.

    Examples
    --------
    ::

        params = {"objective": "binary", "tree_learner": "data"}
        with network(comm) as found:
            booster = lightgbm.train(params | found, lightgbm.Dataset(x, y))
    """
    lightgbm, compiled, ours = _lightgbm(), library(), resolve(comm)
    if ours.size == 1:
        yield {"num_machines": 1}
        return
    throwing = ctypes.cast(getattr(compiled, THROWING), ctypes.c_void_p).value
    with Network(ours, ReducerOp, reproducible, throwing or 0) as functions:
        _begin(lightgbm, ours, functions)
        try:
            yield {"num_machines": ours.size}
        except lightgbm.basic.LightGBMError:
            if functions.failure is None:
                raise
            raise functions.failure from None
        finally:
            compiled.LGBM_NetworkFree()


def _begin(lightgbm: ModuleType, comm: CommunicatorBase, functions: Network) -> None:
    """Set the functions by which LightGBM communicates in this thread."""
    compiled = library()
    scatter, gather = map(ctypes.c_void_p, functions.functions)
    if compiled.LGBM_NetworkInitWithFunctions(comm.size, comm.rank, scatter, gather):
        reason = compiled.LGBM_GetLastError().decode()
        raise lightgbm.basic.LightGBMError(reason)


def train(
    params: dict[str, Any],
    train_set: Any,
    comm: Communicator | None = None,
    *args: Any,
    reproducible: bool = False,
    **named: Any,
) -> Any:
    """Train with LightGBM on all ranks of a communicator.

    Parameters
    ----------
    params
        The parameters of ``lightgbm.train``. ``tree_learner`` is ``"data"`` unless they
        have it: each rank has rows of its own. With ``"feature"`` each rank has all
        rows, with ``"voting"`` rows of its own.
    train_set
        The ``lightgbm.Dataset`` of this rank, not constructed yet.
    comm, reproducible
        See :func:`network`.
    *args, **named
        Further arguments of ``lightgbm.train``.

    Returns
    -------
    lightgbm.Booster
        The same model on every rank.

    Raises
    ------
    ImportError, CollalgoError
        See :func:`network`.
    """
    lightgbm = _lightgbm()
    chosen = {"tree_learner": "data"} if params.keys().isdisjoint(TREE_LEARNER) else {}
    mine = {name: params[name] for name in params if name not in NUM_MACHINES}
    with network(comm, reproducible=reproducible) as needed:
        return lightgbm.train(mine | chosen | needed, train_set, *args, **named)


def library() -> Any:
    """The compiled library of LightGBM, for ctypes."""
    return _lightgbm().basic._LIB


def _lightgbm() -> ModuleType:
    """The package, with its module ``basic``."""
    try:
        import lightgbm.basic
    except ImportError as error:
        raise ImportError(
            f"LightGBM cannot be imported ({error}); install it with: "
            "pip install 'collalgo[lightgbm]'"
        ) from error
    return lightgbm
