"""Attributes: values that programs attach to communicators and datatypes, by key."""

import sys
import traceback
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, NamedTuple

from collalgo.integrations.as_mpi4py.constants import KEYVAL_INVALID
from collalgo.integrations.as_mpi4py.errors import MpiException, fail

#: Keys start here: after those of the attributes that every world has.
_keys = count(1 << 10)


class Key(NamedTuple):
    """What happens to an attribute when its object is copied, and when it is freed."""

    copy: Any
    delete: Any
    owner: type


_known: dict[int, Key] = {}


class Attributes:
    """Attributes by keys; a mixin of handles."""

    state: Any
    predefined_attributes: ClassVar[dict[int, Any]] = {}

    @classmethod
    def Create_keyval(
        cls, copy_fn: Any = None, delete_fn: Any = None, nopython: bool = False
    ) -> int:
        """Make a key.

        Parameters
        ----------
        copy_fn
            ``copy_fn(object, key, value)`` returns the value of a copy of the object,
            or NotImplemented for none; True copies the value.
        delete_fn
            ``delete_fn(object, key, value)`` is called at the end of an attribute.
        nopython
            Whether the values are integers; it makes no difference here.
        """
        del nopython
        key = next(_keys)
        _known[key] = Key(copy_fn, delete_fn, cls.kind)  # type: ignore[attr-defined]
        return key

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free a key; attributes that use it stay. Returns ``KEYVAL_INVALID``."""
        if keyval not in _known:
            fail("ERR_KEYVAL", f"{keyval} is not a key of an attribute")
        return KEYVAL_INVALID

    def Get_attr(self, keyval: int) -> Any:
        """The value of an attribute; None without one."""
        state = self.state
        if keyval in self.predefined_attributes:
            value = self.predefined_attributes[keyval]
            return value() if callable(value) else value
        self._check_key(keyval)
        return state.attributes.get(keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        """Set an attribute; a former value is deleted first."""
        state = self.state
        self._check_key(keyval)
        if keyval in state.attributes:
            self.Delete_attr(keyval)
        state.attributes[keyval] = attrval

    def Delete_attr(self, keyval: int) -> None:
        """Delete an attribute, through the ``delete_fn`` of its key."""
        state = self.state
        self._check_key(keyval)
        if keyval not in state.attributes:
            return
        value = state.attributes.pop(keyval)
        if (delete := _known[keyval].delete) is not None:
            call(delete, self, keyval, value)

    def _check_key(self, keyval: int) -> None:
        if keyval not in _known:
            fail("ERR_KEYVAL", f"{keyval} is not a key of an attribute")

    def copy_attributes(self, copy: Any) -> None:
        """Copy the attributes to a copy of the object."""
        for keyval, value in self.state.attributes.items():
            how = _known[keyval].copy
            if how is True:
                copy.state.attributes[keyval] = value
            elif callable(how):
                found = call(how, self, keyval, value)
                if found is not NotImplemented:
                    copy.state.attributes[keyval] = found

    def delete_attributes(self) -> None:
        """Delete all attributes, the latest first."""
        for keyval in reversed(list(self.state.attributes)):
            self.Delete_attr(keyval)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the program; print what it raises, and fail."""
    try:
        return function(*arguments)
    except MpiException:
        traceback.print_exc(file=sys.stderr)
        raise
    except Exception:
        traceback.print_exc(file=sys.stderr)
        fail("ERR_OTHER", f"{function!r} has raised")
