"""Reductions of elements that messages of an algorithm would split.

Messages end between elements of 1, 2, 4, ... 64 bytes. Ops of the user also have other
elements, as a value and an index in 12 bytes, or matrices.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.transport.transport import WHOLE_CALL
from collalgo.engine.call import Call, Part, named_with_parts
from collalgo.engine.reduction import op_of
from collalgo.engine.user_op import Op
from collalgo.errors import AlgorithmNotApplicable

#: What records name in place of an algorithm.
NAME = "gather and combine"


def needs_gathering(op: Any, caller: str) -> bool:
    """Whether an op can be one of such elements."""
    return isinstance(op_of(op, caller), Op)


class GatheredReduction:
    """A reduction for which every rank gathers the elements of all, and combines them.

    Parameters
    ----------
    runner
        The runner of the communicator.
    call
        The call, with its count.
    source
        The array of this rank.

    Attributes
    ----------
    program : Program
        The program that gathers.
    source, gathered : array
        The contiguous arrays that it gathers from and to.
    failure : BaseException or None
        The error that the op has raised.
    """

    def __init__(self, runner: Any, call: Call, source: NDArray[Any]):
        name, counted = NAME, WHOLE_CALL
        if isinstance(call.algorithm, Part):
            name = named_with_parts(NAME, call.algorithm.text)
            counted = call.algorithm.counted
            call = call._replace(algorithm=call.algorithm.algorithm)
        call, programs = call.plain(), runner.programs
        if call.algorithm is not None:
            raise AlgorithmNotApplicable(
                f"{call.collective}: no algorithm can cut elements of "
                f"{call.dtype.itemsize} bytes; leave out algorithm=, or pad the dtype "
                "to 8, 16, 32 or 64 bytes",
                collective=call.collective,
            )
        call.kernel(programs.size)
        self.call, self._rank = call, runner.rank
        self.program = programs.exchange(call, source.nbytes, name, counted)
        self.source = np.ascontiguousarray(source)
        self.gathered = np.empty((runner.size, *source.shape), source.dtype)
        self.failure: BaseException | None = None

    def fill(self, source: NDArray[Any]) -> None:
        """Read the elements of the array when the call runs."""
        self.source[...] = source

    def combine(self, target: NDArray[Any] | None) -> None:
        """Set ``target`` to the result of this rank."""
        name, rank = self.call.collective, self._rank
        ranks = {"scan": rank + 1, "exscan": rank}.get(name, len(self.gathered))
        if target is None or not ranks:
            return
        start = sum(self.call.counts[:rank]) if self.call.counts else 0
        if name == "reduce_scatter" and not self.call.counts:
            start = rank * target.size
        rows = self.gathered.reshape(len(self.gathered), -1)
        parts = [row[start : start + target.size] for row in rows[:ranks]]
        try:
            found = self.call.op.combination(self.call.dtype)(parts)
            target[...] = found.reshape(target.shape)
        except BaseException as error:
            self.failure = error
