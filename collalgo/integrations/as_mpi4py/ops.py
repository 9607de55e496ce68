"""Operations of reductions: on objects, and on arrays by the kernels of the engine."""

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from collalgo.engine.reduction import op_of, reduction_of
from collalgo.engine.ufuncs import UFUNCS
from collalgo.engine.user_op import Op as EngineOp
from collalgo.integrations.as_mpi4py.buffers import Buffer
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.handles import Handle, State, constant
from collalgo.integrations.as_mpi4py.parts import Part
from collalgo.integrations.as_mpi4py.specs import simple


def _extreme(is_better: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    """The pair of the better value; of equal values that of the smaller index."""

    def choose(left: Any, right: Any) -> Any:
        (a, i), (b, j) = left, right
        if a == b:
            return (a, i) if i <= j else (b, j)
        return (a, i) if is_better(a, b) else (b, j)

    return choose


#: The operations on two objects, by their names.
ON_OBJECTS: dict[str, Callable[[Any, Any], Any]] = {
    "MAX": max,
    "MIN": min,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda x, y: bool(x) & bool(y),
    "BAND": operator.and_,
    "LOR": lambda x, y: bool(x) | bool(y),
    "BOR": operator.or_,
    "LXOR": lambda x, y: bool(x) ^ bool(y),
    "BXOR": operator.xor,
    "MAXLOC": _extreme(operator.gt),
    "MINLOC": _extreme(operator.lt),
    "REPLACE": lambda _x, y: y,
    "NO_OP": lambda x, _y: x,
}


class OpState(State):
    """An operation.

    Attributes
    ----------
    function
        The function of two objects, or of two buffers and their datatype.
    commute : bool
        Whether the order of the ranks does not matter.
    """

    def __init__(self, function: Any, *, commute: bool, predefined: str = ""):
        super().__init__(predefined)
        self.function, self.commute = function, commute
        # Ranks may make their operations in different orders: no name tells them apart.
        self.name = predefined.lower() or "operation of the program"


class Op(Handle):
    """An operation of reductions; ``MPI.Op``."""

    null_name, error_name = "OP_NULL", "ERR_OP"

    @classmethod
    def Create(cls, function: Any, commute: bool = False) -> "Op":
        """Make an operation.

        Parameters
        ----------
        function
            ``function(left, right, datatype)`` on two buffers, which writes its result
            to ``right``; it is called with two objects and None for objects, and
            returns the result.
        commute
            Whether ``left op right`` is ``right op left``; if not, contributions are
            combined in the order of the ranks.
        """
        if not callable(function):
            raise TypeError(f"{function!r} is not a function of two buffers")
        made: Op = cls.of_state(OpState(function, commute=bool(commute)))
        return made

    def __call__(self, x: Any, y: Any) -> Any:
        if not self:
            raise ValueError("OP_NULL is not an operation; pass one")
        state = self.state
        return state.function(x, y) if state.predefined else state.function(x, y, None)

    def Is_commutative(self) -> bool:
        """Whether the order of the ranks does not matter."""
        return bool(self.state.commute)

    is_commutative = property(Is_commutative)

    @property
    def is_predefined(self) -> bool:
        return not self or bool(self.state.predefined)

    def __reduce__(self) -> Any:
        if self.is_predefined:
            return super().__reduce__()
        return type(self).Create, (self.state.function, self.state.commute)

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Combine two buffers of this rank; the result goes into the second."""
        left, right = simple(inbuf), simple(inoutbuf, writable=True)
        check_alike(left, right)
        combine_into(self, right, [left.elements(), right.elements().copy()])

    def on(self, part: Part) -> Any:
        """The operation of the engine on the elements of a part."""
        state = self.state
        if not state.predefined:
            return EngineOp(
                _on_buffers(state.function, part.datatype),
                commute=state.commute,
                name=state.name,
            )
        if part.datatype.state.dtype is None:
            fail("ERR_OP", f"{state.predefined} is not defined for {part.datatype!r}")
        return defined_op(state.name, part.datatype.state.dtype)


@cache
def defined_op(name: str, dtype: np.dtype[Any]) -> str:
    """The name of a predefined operation, which a dtype has.

    Raises
    ------
    MPI.Exception
        If it has not.
    """
    try:
        reduction_of(dtype, op_of(name, name))
    except TypeError as error:
        fail("ERR_OP", str(error))
    return name


def combine_into(op: Op, target: Part, arrays: Sequence[Any]) -> None:
    """Combine arrays, in their order, into a buffer."""
    reduction, elements = op_of(op.on(target), "Reduce_local"), target.elements()
    if isinstance(reduction, EngineOp):
        elements[...] = reduction.combination(elements.dtype)(list(arrays))
    else:
        elements[...] = arrays[0]
        for array in arrays[1:]:
            UFUNCS[reduction](elements, array, out=elements)
    if target.finish is not None:
        target.finish()


def _on_buffers(function: Any, datatype: Any) -> Callable[[Any, Any], Any]:
    """A function of two arrays that calls a function of two buffers."""

    def combine(left: Any, right: Any) -> Any:
        result = np.ascontiguousarray(right).copy()
        function(
            Buffer.frombuffer(np.ascontiguousarray(left).view(np.uint8)),
            result.view(np.uint8).view(Buffer),
            datatype,
        )
        return result

    return combine


def check_alike(sent: Part, received: Part) -> None:
    """Check that two buffers of a reduction have the same elements."""
    if sent.datatype != received.datatype:
        raise ValueError("the datatypes of the two buffers differ")
    if sent.count != received.count:
        raise ValueError(
            f"the two buffers have {sent.count} and {received.count} elements"
        )


OP_NULL = constant("OP_NULL", Op())
OPS = {
    name: constant(
        name,
        Op.of_state(
            OpState(
                function,
                commute=name not in ("REPLACE", "NO_OP"),
                predefined=name,
            )
        ),
    )
    for name, function in ON_OBJECTS.items()
}
SUM = OPS["SUM"]


def combined(op: Any, objects: list[Any]) -> Any:
    """The combination of objects, in their order."""
    found = objects[0]
    for each in objects[1:]:
        found = op(found, each)
    return found
