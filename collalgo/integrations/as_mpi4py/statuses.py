"""Statuses: from whom a message came, its tag and its length."""

from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py.constants import (
    ANY_SOURCE,
    ANY_TAG,
    ERRORS,
    UNDEFINED,
)
from collalgo.integrations.as_mpi4py.datatypes import BYTE, Datatype

#: The places of the values of a status in its memory.
SOURCE, TAG, ERROR, COUNT, CANCELLED = range(5)
EMPTY = (ANY_SOURCE, ANY_TAG, ERRORS["SUCCESS"], 0, 0)


def _value(place: int, doc: str) -> Any:
    """A property of a status."""

    def read(self: Any) -> int:
        return int(self._values[place])

    def write(self: Any, value: int) -> None:
        self._values[place] = value

    return property(read, write, doc=doc)


class Status:
    """What is known of a message that was received; ``MPI.Status``."""

    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, status: Any = None) -> "Status":
        if status is not None and not isinstance(status, Status):
            raise TypeError(f"Status cannot be made of {status!r}; pass a Status")
        self = super().__new__(cls)
        values = EMPTY if status is None else status._values
        self._values = np.array(values, np.int64)
        return self

    _values: Any
    source = _value(SOURCE, "The rank of the sender.")
    tag = _value(TAG, "The tag of the message.")
    error = _value(ERROR, "The code of an error.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return bool((self._values == other._values).all())

    def set(
        self, source: int, tag: int, nbytes: int, *, error: int = 0, cancelled: int = 0
    ) -> None:
        """Fill in the source, tag and size of a message."""
        self._values[:] = source, tag, error, nbytes, cancelled

    def clear(self) -> None:
        """Fill in the status of no message."""
        self._values[:] = EMPTY

    def Get_source(self) -> int:
        """The rank of the sender."""
        return int(self.source)

    def Set_source(self, source: int) -> None:
        """Set the rank of the sender."""
        self.source = source

    def Get_tag(self) -> int:
        """The tag of the message."""
        return int(self.tag)

    def Set_tag(self, tag: int) -> None:
        """Set the tag of the message."""
        self.tag = tag

    def Get_error(self) -> int:
        """The code of an error."""
        return int(self.error)

    def Set_error(self, error: int) -> None:
        """Set the code of an error."""
        self.error = error

    def Get_count(self, datatype: Any = BYTE) -> int:
        """The number of elements of a datatype; UNDEFINED if there is a part of one."""
        size = Datatype.of(datatype).Get_size()
        nbytes = int(self._values[COUNT])
        if not size:
            return 0 if not nbytes else UNDEFINED
        return UNDEFINED if nbytes % size else nbytes // size

    def Get_elements(self, datatype: Any) -> int:
        """The number of elements that a datatype is made of."""
        layout = Datatype.of(datatype).state.layout
        return int(layout.elements_in(int(self._values[COUNT])))

    def Set_elements(self, datatype: Any, count: int) -> None:
        """Set the length of the message in elements of a datatype."""
        self._values[COUNT] = Datatype.of(datatype).Get_size() * count

    def Is_cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return bool(self._values[CANCELLED])

    def Set_cancelled(self, flag: bool) -> None:
        """Set whether the request was cancelled."""
        self._values[CANCELLED] = flag

    count = property(Get_count, lambda self, count: self.Set_elements(BYTE, count))
    cancelled = property(Is_cancelled, Set_cancelled)

    def __getstate__(self) -> dict[str, int]:
        return {"values": self._values.tolist()}

    def __setstate__(self, state: Any) -> None:
        self._values[:] = state["values"]

    def __reduce__(self) -> Any:
        return type(self), (), self.__getstate__()

    def tomemory(self) -> memoryview:
        """The memory of its values."""
        return memoryview(self._values)

    def py2f(self) -> list[int]:
        """Its values."""
        return [*map(int, self._values), 0, 0, 0]

    @classmethod
    def f2py(cls, arg: list[int]) -> "Status":
        """The status of some values."""
        self = cls()
        self._values[:] = arg[: len(EMPTY)]
        return self
