"""Handles: the references of programs to MPI objects.

Several handles may name one object; they are equal, and freeing one leaves it null.
"""

from functools import cached_property
from itertools import count
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from collalgo.integrations.as_mpi4py.errors import fail

_numbers = count(1)


class State:
    """An object of MPI.

    Attributes
    ----------
    predefined : str
        The name of its constant in the module; empty for what a program made.
    """

    def __init__(self, predefined: str = ""):
        self.predefined = predefined

    @cached_property
    def number(self) -> int:
        """Its number in this process, from 1."""
        number = next(_numbers)
        _states[number] = self
        return number


_states: WeakValueDictionary[int, State] = WeakValueDictionary()

#: The handles that are constants of the module, by their names.
CONSTANTS: dict[str, "Handle"] = {}


class Handle:
    """A handle; of no object if it is null."""

    __hash__ = None  # type: ignore[assignment]
    kind: ClassVar[type["Handle"]]
    null_name: ClassVar[str] = ""
    error_name: ClassVar[str] = "ERR_ARG"
    _state: Any

    def __init_subclass__(cls, **named: Any):
        super().__init_subclass__(**named)
        if Handle in cls.__bases__:
            cls.kind = cls

    def __new__(cls, handle: Any = None) -> "Handle":
        self = super().__new__(cls)
        if handle is not None and not self._fits(handle):
            raise TypeError(
                f"{cls.__name__} cannot be made of {type(handle).__name__} "
                f"{handle!r}; pass another {cls.kind.__name__}"
            )
        self._state = None if handle is None else handle._state
        return self

    @classmethod
    def _fits(cls, handle: Any) -> bool:
        return isinstance(handle, cls.kind)

    @classmethod
    def of_state(cls, state: Any) -> Any:
        """The handle of an object."""
        self = object.__new__(cls)
        self._state = state
        return self

    @property
    def state(self) -> Any:
        """The object, which exists.

        Raises
        ------
        MPI.Exception
            If the handle is null.
        """
        if self._state is None:
            fail(self.error_name, f"this {self.kind.__name__} is null, or was freed")
        return self._state

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, self.kind):
            return NotImplemented
        return bool(self._state is other._state)

    def __bool__(self) -> bool:
        return self._state is not None

    def __repr__(self) -> str:
        name = self._constant_name() or f"{type(self).__name__} {self.handle}"
        return f"<MPI.{name}>"

    def _constant_name(self) -> str:
        return self.null_name if self._state is None else self._state.predefined

    def __reduce__(self) -> Any:
        name = self._constant_name()
        if not name:
            raise ValueError(
                f"this {type(self).__name__} belongs to its process and cannot be "
                "pickled; pickle what it is made of"
            )
        constant = CONSTANTS[name]
        return name if self is constant else (type(self), (constant,))

    @property
    def handle(self) -> int:
        """The number of the object in this process; 0 for null."""
        return 0 if self._state is None else self._state.number

    def toint(self) -> int:
        """The number of the object in this process."""
        return self.handle

    def py2f(self) -> int:
        """The number of the object in this process."""
        return self.handle

    @classmethod
    def fromhandle(cls, handle: int) -> Any:
        """The handle of the object of a number."""
        return cls._class_of(state := _states.get(handle)).of_state(state)

    fromint = f2py = fromhandle

    @classmethod
    def _class_of(cls, _state: Any) -> Any:
        return cls

    def free(self) -> None:
        """Free the object, unless it is null or a constant of the module."""
        if self._state is None or self is CONSTANTS.get(self._constant_name()):
            return
        if self._state.predefined:
            self._state = None
        else:
            self.Free()

    def Free(self) -> None:
        """Free the object: the handle is null afterwards."""
        if self.state.predefined:
            fail(self.error_name, f"{self._state.predefined} cannot be freed")
        self._state = None


def constant(name: str, handle: Any) -> Any:
    """Register a handle as a constant of the module."""
    if handle._state is not None and not handle._state.predefined:
        handle._state.predefined = name
    CONSTANTS[name] = handle
    return handle
