"""Derived datatypes: their contents, and their constructors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import arrangements
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.datatype_tables import F90, PAIRS
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.handles import CONSTANTS, State
from collalgo.integrations.as_mpi4py.layouts import Layout, joined

Ints = Sequence[int]


class DatatypeState(State):
    """A datatype.

    Attributes
    ----------
    layout : Layout
        Where its bytes lie.
    dtype : np.dtype or None
        What reductions combine; None for a datatype of several elements.
    combiner : str
        How it was made, with ``parameters``, of ``bases``.
    is_committed : bool
        Whether messages may have it.
    """

    def __init__(
        self,
        layout: Layout,
        dtype: np.dtype[Any] | None = None,
        combiner: str = "NAMED",
        parameters: dict[str, Any] | None = None,
        bases: Sequence["DatatypeState"] = (),
    ):
        super().__init__()
        self.layout, self.dtype, self.combiner = layout, dtype, combiner
        self.parameters, self.bases = parameters or {}, tuple(bases)
        self.attributes: dict[int, Any] = {}
        self.name = ""
        self.is_committed = combiner == "NAMED" or combiner.startswith("F90")


class Constructors:
    """The calls that make datatypes; a mixin of :class:`Datatype`."""

    state: Any
    extent: Any
    is_predefined: Any
    copy_attributes: Any
    delete_attributes: Any
    of_state: Any
    _state: Any

    def _made(self, combiner: str, layout: Layout, **parameters: Any) -> Any:
        state = DatatypeState(layout, None, combiner, parameters, [self.state])
        return type(self).of_state(state)

    def Dup(self) -> Any:
        """A copy, with its attributes."""
        old = self.state
        copy = type(self).of_state(
            DatatypeState(old.layout, old.dtype, "DUP", {}, [old])
        )
        copy.state.is_committed = old.is_committed
        self.copy_attributes(copy)
        return copy

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Any:
        """Make a datatype of some elements."""
        return self._made("CONTIGUOUS", self._placed(0, count), count=count)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Any:
        """Make a datatype of blocks at a distance of ``stride`` elements."""
        places = np.arange(count) * stride * self.extent
        layout = self._placed(places, blocklength)
        return self._made(
            "VECTOR", layout, count=count, blocklength=blocklength, stride=stride
        )

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Any:
        """Make a datatype of blocks at a distance of ``stride`` bytes."""
        layout = self._placed(np.arange(count) * stride, blocklength)
        return self._made(
            "HVECTOR", layout, count=count, blocklength=blocklength, stride=stride
        )

    def Create_indexed(self, blocklengths: Ints, displacements: Ints) -> Any:
        """Make a datatype of blocks at places in elements."""
        return self._at("INDEXED", blocklengths, displacements, self.extent)

    def Create_hindexed(self, blocklengths: Ints, displacements: Ints) -> Any:
        """Make a datatype of blocks at places in bytes."""
        return self._at("HINDEXED", blocklengths, displacements, 1)

    def Create_indexed_block(self, blocklength: int, displacements: Ints) -> Any:
        """Make a datatype of equal blocks at places in elements."""
        return self._at("INDEXED_BLOCK", blocklength, displacements, self.extent)

    def Create_hindexed_block(self, blocklength: int, displacements: Ints) -> Any:
        """Make a datatype of equal blocks at places in bytes."""
        return self._at("HINDEXED_BLOCK", blocklength, displacements, 1)

    def _at(self, combiner: str, lengths: Any, places: Ints, unit: int) -> Any:
        layout = self._placed(np.array(places, np.int64) * unit, lengths)
        if combiner.endswith("BLOCK"):
            given = {"blocklength": lengths, "displacements": list(places)}
        else:
            given = {"blocklengths": list(lengths), "displacements": list(places)}
        return self._made(combiner, layout, **given)

    def _placed(self, places: Any, counts: Any) -> Layout:
        if np.min(counts, initial=0) < 0:
            fail("ERR_ARG", f"the number of elements is negative: {counts}")
        found: Layout = self.state.layout.placed(np.atleast_1d(places), counts)
        return found

    @classmethod
    def Create_struct(
        cls, blocklengths: Ints, displacements: Ints, datatypes: Sequence[Any]
    ) -> Any:
        """Make a datatype of blocks of several datatypes at places in bytes."""
        if not len(blocklengths) == len(displacements) == len(datatypes):
            raise ValueError(
                f"Create_struct: {len(blocklengths)} lengths, {len(displacements)} "
                f"displacements and {len(datatypes)} datatypes; pass as many of each"
            )
        given = zip(datatypes, displacements, blocklengths, strict=True)
        parts = [one._placed(place, count) for one, place, count in given]
        layout = joined(parts)
        padding = -layout.extent % max(layout.alignment, 1)  # 0 of empty members
        parameters = {
            "blocklengths": list(blocklengths),
            "displacements": list(displacements),
        }
        bases = [one.state for one in datatypes]
        layout = layout.resized(layout.lb, layout.ub + padding)
        return cls.of_state(DatatypeState(layout, None, "STRUCT", parameters, bases))

    def Create_subarray(
        self,
        sizes: Ints,
        subsizes: Ints,
        starts: Ints,
        order: int = NUMBERS["ORDER_C"],
    ) -> Any:
        """Make a datatype of a part of an array."""
        layout = arrangements.subarray(
            self.state.layout, sizes, subsizes, starts, order
        )
        return self._made(
            "SUBARRAY",
            layout,
            sizes=list(sizes),
            subsizes=list(subsizes),
            starts=list(starts),
            order=order,
        )

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Ints,
        distribs: Ints,
        dargs: Ints,
        psizes: Ints,
        order: int = NUMBERS["ORDER_C"],
    ) -> Any:
        """Make a datatype of the part of a rank of a distributed array."""
        given = {
            "gsizes": list(gsizes),
            "distribs": list(distribs),
            "dargs": list(dargs),
            "psizes": list(psizes),
            "order": order,
        }
        layout = arrangements.darray(self.state.layout, rank, *given.values())  # type: ignore[arg-type]
        return self._made("DARRAY", layout, size=size, rank=rank, **given)

    def Create_resized(self, lb: int, extent: int) -> Any:
        """Make a datatype with other bounds."""
        layout = self.state.layout.resized(lb, lb + extent)
        return self._made("RESIZED", layout, lb=lb, extent=extent)

    Resized = Create_resized

    def Commit(self) -> Any:
        """Let messages have the datatype."""
        self.state.is_committed = True
        return self

    def Free(self) -> None:
        """Free the datatype, with its attributes."""
        if self.state.predefined or self.is_predefined:
            fail("ERR_TYPE", f"{self!r} is predefined and cannot be freed")
        self.delete_attributes()
        self._state = None

    # ---- found by what they are

    @classmethod
    def Get_value_index(cls, value: Any, index: Any) -> Any:
        """The datatype of pairs of a value and an index, or ``DATATYPE_NULL``."""
        names = value.state.predefined, index.state.predefined
        found = PAIRS.get(names[0]) if names[1] == "INT" else None
        return CONSTANTS[found] if found else cls()

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Any:
        """The datatype of a class of Fortran and a number of bytes."""
        for name in ("LOGICAL", "INTEGER", "REAL", "COMPLEX"):
            if typeclass == NUMBERS[f"TYPECLASS_{name}"]:
                found = CONSTANTS.get(f"{name}{size}")
                if found:
                    return found
        return fail("ERR_ARG", f"there is no datatype of {size} bytes of this class")

    @classmethod
    def Create_f90_integer(cls, r: int) -> Any:
        """The integers of Fortran of ``r`` decimal digits."""
        return _f90("INTEGER", r=r)

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Any:
        """The floats of Fortran of ``p`` digits and exponents of up to ``r``."""
        return _f90("REAL", p=p, r=r)

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Any:
        """The complex numbers of Fortran; as :meth:`Create_f90_real`."""
        return _f90("COMPLEX", p=p, r=r)


def _f90(name: str, **digits: int) -> Any:
    """The smallest datatype of Fortran with some digits."""
    for most, code in F90[name]:
        if all(
            digit <= limit for digit, limit in zip(digits.values(), most, strict=True)
        ):
            base = CONSTANTS[code]
            state = DatatypeState(
                base.state.layout, base.state.dtype, f"F90_{name}", dict(digits)
            )
            return type(base).of_state(state)
    return fail("ERR_ARG", f"there is no datatype of Fortran with {digits}")
