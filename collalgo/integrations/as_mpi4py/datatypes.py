"""Datatypes: the elements of a buffer."""

from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.attributes import Attributes
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.constructed import Constructors, DatatypeState
from collalgo.integrations.as_mpi4py.datatype_tables import (
    ADDRESSES,
    ALIASES,
    CODES,
    NAMED,
    PAIRS,
)
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.handles import CONSTANTS, Handle, constant
from collalgo.integrations.as_mpi4py.layouts import Layout, basic, joined
from collalgo.integrations.as_mpi4py.names import Named


class Datatype(Constructors, Named, Attributes, Handle):
    """What a buffer consists of; ``MPI.Datatype``."""

    null_name, error_name = "DATATYPE_NULL", "ERR_TYPE"

    @classmethod
    def of(cls, datatype: Any) -> Any:
        """A datatype, or that of a code as ``"d"``."""
        if isinstance(datatype, Datatype):
            return datatype
        if datatype not in TYPECODES:
            raise KeyError(f"there is no datatype of the code {datatype!r}")
        return TYPECODES[datatype]

    # ---- what it is

    def Get_size(self) -> int:
        """The number of bytes, without gaps."""
        return int(self.state.layout.size)

    def Get_extent(self) -> tuple[int, int]:
        """The lower bound and the extent, in bytes."""
        return self.state.layout.lb, self.state.layout.extent

    def Get_true_extent(self) -> tuple[int, int]:
        """The first byte, and the number of bytes from there to the last one."""
        low, high = self.state.layout.true_bounds
        return low, high - low

    size = property(Get_size)
    lb = property(lambda self: self.Get_extent()[0])
    extent = property(lambda self: self.Get_extent()[1])
    ub = property(lambda self: sum(self.Get_extent()))
    true_lb = property(lambda self: self.Get_true_extent()[0])
    true_extent = property(lambda self: self.Get_true_extent()[1])
    true_ub = property(lambda self: sum(self.Get_true_extent()))

    @property
    def is_named(self) -> bool:
        return not self or self.state.combiner == "NAMED"

    @property
    def is_predefined(self) -> bool:
        return self.is_named or self.state.combiner.startswith("F90")

    @property
    def combiner(self) -> int:
        return NUMBERS[f"COMBINER_{self.state.combiner}"]

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """How many integers, addresses, counts and datatypes, and the combiner."""
        integers, addresses = self._numbers()
        bases = len(self.state.bases)
        return len(integers), len(addresses), 0, bases, self.combiner

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Any]]:
        """The integers, addresses, counts and datatypes that it was made of."""
        if self.is_named:
            fail("ERR_TYPE", f"{self.Get_name()} is predefined and has no contents")
        return *self._numbers(), [], [_handle(base) for base in self.state.bases]

    envelope, contents = property(Get_envelope), property(Get_contents)

    def _numbers(self) -> tuple[list[int], list[int]]:
        """The integers and the addresses that it was made of."""
        found: tuple[list[int], list[int]] = [], []
        state = self.state
        for name, value in state.parameters.items():
            if name != "datatypes":
                is_address = name in ADDRESSES.get(state.combiner, ())
                found[is_address].extend(np.atleast_1d(value).tolist())
        return found

    def decode(self) -> tuple["Datatype", str, dict[str, Any]]:
        """The datatype that it is made of, how, and the arguments."""
        state = self.state
        bases = [_handle(base) for base in state.bases]
        base = bases[0] if bases else DATATYPE_NULL
        given = dict(state.parameters)
        if state.combiner == "NAMED":
            base = self
        elif state.combiner == "STRUCT":
            base, given["datatypes"] = DATATYPE_NULL, bases
        return base, state.combiner, given

    def __reduce__(self) -> Any:
        if not self or self.is_named:
            return super().__reduce__()
        base, combiner, given = self.decode()
        return _rebuilt, (type(self), base, combiner, given)

    # ---- as NumPy has it

    @property
    def typechar(self) -> str:
        dtype = self.state.dtype
        return "V" if dtype is None else str(dtype.char)

    @property
    def typestr(self) -> str:
        dtype = self.state.dtype
        return f"V{self.extent}" if dtype is None else str(dtype.str[1:])

    def tocode(self) -> str:
        """The code of a datatype of one element, as ``"d"``."""
        if not self or self.state.dtype is None or self.typechar == "V":
            raise ValueError(f"{self!r} has no code, as it has several elements")
        return self.typechar

    @classmethod
    def fromcode(cls, code: str) -> Any:
        """The datatype of a code, as ``"d"`` or ``"f8"``."""
        try:
            return cls(cls.of(code))
        except KeyError as error:
            raise ValueError(str(error)) from None


def _handle(state: DatatypeState) -> Any:
    """A handle of a datatype that another is made of."""
    found = CONSTANTS.get(state.predefined)
    return Datatype.of_state(state) if found is None else found


def _rebuilt(kind: Any, base: Any, combiner: str, given: dict[str, Any]) -> Any:
    """The datatype of what :meth:`Datatype.decode` returned."""
    made = getattr(kind(base), f"Create_{combiner.lower()}")(**given)
    return kind(made).Commit()


def _predefined(name: str, dtype: Any) -> Any:
    """A datatype of one element, as a constant of the module."""
    made = np.dtype(dtype)
    state = DatatypeState(basic(made.itemsize, made.alignment), made)
    return constant(name, Datatype.of_state(state))


def _pair(name: str, value: str) -> Any:
    """A datatype of a value and an index, as a structure of C."""
    dtypes = [CONSTANTS[value].state.dtype, CONSTANTS["INT"].state.dtype]
    made: Any = np.dtype([*zip(("value", "index"), dtypes, strict=True)], align=True)
    places = [made.fields[field][1] for field in made.names]
    parts = [
        basic(dtype.itemsize).placed([place], [1])
        for dtype, place in zip(dtypes, places, strict=True)
    ]
    layout: Layout = joined(parts).resized(0, made.itemsize)
    return constant(name, Datatype.of_state(DatatypeState(layout, made)))


DATATYPE_NULL = constant("DATATYPE_NULL", Datatype())
for _name, _dtype in NAMED.items():
    _predefined(_name, _dtype)
for _value, _name in PAIRS.items():
    _pair(_name, _value)

BYTE = CONSTANTS["BYTE"]

#: The datatype of each name, also of other names of the same.
DATATYPES = {name: CONSTANTS[name] for name in (*NAMED, *PAIRS.values())} | {
    alias: CONSTANTS.get(name, DATATYPE_NULL) for alias, name in ALIASES.items()
}

#: The datatype of each code of the buffer protocol and of NumPy.
TYPECODES = {code: CONSTANTS[name] for code, name in CODES.items()}
