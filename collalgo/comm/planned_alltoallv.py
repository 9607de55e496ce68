"""A persistent alltoallv, whose schedule is made for the bytes of its table."""

from __future__ import annotations  # signatures as those of compiled calls

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from collalgo._kernels.comm.persistent import Persistent
from collalgo.comm.agreed_counts import agreed_counts
from collalgo.comm.background import check_mutable
from collalgo.comm.functions.sharing import alltoallv
from collalgo.comm.types import ArrayLike, CountsLike
from collalgo.engine.arrays import as_array
from collalgo.engine.call import AlgorithmChoice
from collalgo.engine.counts import check_table, elements_of

if TYPE_CHECKING:
    from collalgo.selection.pricer import Pricer


def persistent_alltoallv(
    self: Any,
    buf: ArrayLike,
    counts: CountsLike | None = None,
    receive_counts: Sequence[int] | None = None,
    *,
    out: ArrayLike | None = None,
    algorithm: AlgorithmChoice = None,
    timeout: float | None = None,
) -> Persistent:
    """Prepare the call :func:`alltoallv` to be made many times.

    On several hosts a schedule is synthesised for these counts, and runs if its price
    is the lowest: that takes seconds, once.

    Parameters
    ----------
    buf, counts, receive_counts, out, algorithm, timeout
        As of :func:`alltoallv`. Every rank prepares the call at the same time.
    """
    runner = self._runner
    check_mutable("alltoallv", (buf,), {"out": out})
    table = _table(runner, counts, receive_counts, timeout)
    if algorithm is None and table.shape == (runner.size, runner.size):
        array = as_array(buf, "alltoallv")
        elements = elements_of(table.ravel().tolist(), array, "alltoallv")
        nbytes = np.array(elements).reshape(table.shape) * array.itemsize
        algorithm = synthesized_name(runner.programs.pricer, nbytes)
    call = partial(alltoallv, buf, self, table, out=out, algorithm=algorithm)
    found: Persistent = runner.submit("alltoallv", partial(call, timeout=timeout), True)
    return found


def _table(
    runner: Any, counts: Any, receive_counts: Any, timeout: float | None
) -> np.ndarray[Any, Any]:
    """The rows that each rank sends to each; gathered unless all ranks passed them."""
    if receive_counts is not None:
        agreed: np.ndarray[Any, Any] = agreed_counts(
            runner, counts, receive_counts, timeout
        )
        return agreed
    table = check_table(counts, "alltoallv")
    if table.ndim == 1 and len(table) == runner.size:
        found: np.ndarray[Any, Any] = runner.exchange(table, "alltoallv", timeout)
        return found
    return table


def synthesized_name(pricer: Pricer, nbytes: np.ndarray[Any, Any]) -> str | None:
    """The name of the schedule synthesised for some bytes, if it is the cheapest."""
    from collalgo.cost.byte_matrix import ByteMatrix
    from collalgo.selection.decide import decide
    from collalgo.selection.on_matrix import ALLTOALL, matrix_pricer, question_of
    from collalgo.selection.on_topology import TopologyPricer
    from collalgo.synthesis.planner import can_plan
    from collalgo.synthesis.synthesized import is_name

    if not isinstance(pricer, TopologyPricer) or len(nbytes) != pricer.size:
        return None
    if not can_plan(ALLTOALL, pricer.placement):
        return None
    matrix = ByteMatrix(nbytes)
    chosen = decide(question_of(matrix), matrix_pricer(pricer, matrix))
    return chosen.name if is_name(chosen.name) else None
