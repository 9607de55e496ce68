"""A call with its arguments, and the layout of its buffer."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo.base.arguments import wrong_type
from collalgo.engine.dtypes import dtype_code
from collalgo.engine.plan.layout import Layout
from collalgo.engine.reduction import (
    INVARIANT,
    MEANS,
    invariant_op,
    op_of,
    reduction_of,
)
from collalgo.engine.user_op import Op
from collalgo.errors import AlgorithmNotApplicable
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES

#: Collectives with one block for each rank, all equal unless counts are given.
EQUAL_BLOCKS = tuple(name for name in COLLECTIVES if COLLECTIVES[name].blocks)

#: Those of them whose input holds the blocks of all ranks.
SPLIT = ("alltoall", "reduce_scatter")

#: Collectives of which a call of their own, with a "v", takes counts.
VARIABLE = ("allgather", "alltoall", "gather", "scatter")

#: An algorithm as passed to a call: None for the cheapest, a name, names in the order
#: of preference, or a schedule function.
AlgorithmChoice = str | Sequence[str] | ScheduleFunction | None


#: Whether other runs give the same bits: False, True for sums in the order of the
#: ranks, or "invariant" for sums that do not depend on the ranks.
Reproducible = bool | Literal["invariant"]


def check_algorithm(choice: Any, caller: str) -> None:
    """Refuse an invalid choice of an algorithm; ``caller`` is named in the error."""
    if choice is None or isinstance(choice, str) or callable(choice):
        return
    if not isinstance(choice, list | tuple) or not all(
        isinstance(name, str) for name in choice
    ):
        advice = "a name, several in order of preference, or a schedule function"
        raise wrong_type(caller, "algorithm", choice, advice)


class Part(NamedTuple):
    """A call of the library that is one of several for a call of the user.

    Attributes
    ----------
    algorithm : AlgorithmChoice
        The algorithm that the user has passed.
    text : str
        The arrays that lie one after the other in the buffer, which the ranks compare.
    counted : int
        How the user counts it; :class:`Program` has the values.
    """

    algorithm: AlgorithmChoice
    text: str
    counted: int


#: What separates an algorithm and the arrays in a name.
OF = " of "


def named_with_parts(algorithm: str, parts: str) -> str:
    """How records name an algorithm for arrays that lie one after the other.

    >>> named_with_parts("ring", "3+5")
    'ring of 3+5'
    """
    return f"{algorithm}{OF}{parts}"


def arrays_in_name(name: str) -> str | None:
    """The arrays in such a name; None if it has none.

    >>> arrays_in_name("ring of 3+5"), arrays_in_name("ring")
    ('3+5', None)
    """
    _, of, parts = name.partition(OF)
    return parts if of else None


def check_reproducible(value: Any, caller: str) -> Reproducible:
    """The argument ``reproducible`` of a call.

    Raises
    ------
    ValueError
        If it is another text than "invariant".
    """
    if not isinstance(value, str):
        return bool(value)
    if value != INVARIANT:
        raise ValueError(
            f"{caller}: reproducible is {value!r}; pass True, False or 'invariant'"
        )
    return "invariant"


class Call(NamedTuple):  # "count" hides a method of tuples that is not used
    """The arguments of a call that its program depends on.

    ``count`` is the number of elements that a rank passes; ``counts`` are those of each
    rank's block, if blocks may differ. ``parts`` is the text of a :class:`Part`.
    """

    collective: str
    dtype: np.dtype[Any]
    count: int  # type: ignore[assignment]
    op: Any = None
    root: int = 0
    algorithm: AlgorithmChoice = None
    counts: tuple[int, ...] | None = None
    reproducible: Reproducible = False
    parts: str | None = None

    @property
    def name(self) -> str:
        """The name of the call of the user, in errors."""
        is_variable = self.counts is not None and self.collective in VARIABLE
        return self.collective + "v" * is_variable

    def plain(self) -> "Call":
        """The same call with the name of its op, and without mutable arguments.

        An op that does not commute takes the contributions in the order of the ranks,
        as scans always do.
        """
        collective, names = COLLECTIVES[self.collective], self.algorithm
        op = op_of(self.op, self.collective) if collective.reduces else None
        check_algorithm(names, self.name)
        algorithm = tuple(names) if isinstance(names, list) else names
        in_order = isinstance(op, Op) and not op.commute and not collective.prefix
        reproducible = check_reproducible(self.reproducible, self.name)
        if op is not None and reproducible == INVARIANT:
            invariant = invariant_op(op, self.dtype, self.name)
            # All contributions are combined at once, unless the op is exact anyway.
            op, reproducible = invariant, invariant != op
        return self._replace(
            op=op, algorithm=algorithm, reproducible=reproducible or in_order
        )

    def check_order(self) -> None:
        """Check that the op of a plain call may combine in an order that is unknown."""
        if isinstance(self.op, Op) and not self.op.commute:
            raise AlgorithmNotApplicable(
                f"{self.name}: op {self.op.name!r} does not commute, and the "
                "order in which this algorithm combines is unknown; leave out "
                "algorithm=, or pass an Op with commute=True",
                collective=self.collective,
            )

    def shares(self, size: int) -> int:
        """The number of equal blocks in the array of a rank; 0 if borders are free."""
        if self.collective not in EQUAL_BLOCKS:
            return 0
        return size if self.collective in SPLIT else 1

    def layout(self, size: int) -> Layout:
        """The layout of the whole buffer of the schedules."""
        blocks = size ** COLLECTIVES[self.collective].blocks
        counts = self.counts
        if counts is None and (shares := self.shares(size)):
            counts = (self.count // shares,) * blocks
        count = self.count if counts is None else sum(counts)
        parts = COLLECTIVES[self.collective].buffer_blocks(size)
        return Layout(count, self.dtype.itemsize, parts, counts)

    def nbytes(self, size: int) -> int:
        """Bytes of the larger of input and output of a rank, by which prices go."""
        buffers = COLLECTIVES[self.collective].buffers(size)
        return self.layout(size).nbytes // buffers

    def kernel(self, size: int) -> Reduction | None:
        """The kernel of the call, if it reduces.

        Raises
        ------
        TypeError, ValueError
            If ``size`` ranks cannot make the call.
        """
        if not 0 <= self.root < size:
            raise ValueError(
                f"{self.name}: root {self.root} is out of range; this "
                f"communicator has {size} ranks, 0 to {size - 1}"
            )
        if self.op in MEANS and COLLECTIVES[self.collective].prefix:
            raise ValueError(f"{self.collective} has no op 'avg'; use 'sum'")
        try:
            dtype_code(self.dtype)
            return reduction_of(self.dtype, self.op) if self.op else None
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.name}: {error}") from None
