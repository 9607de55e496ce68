"""Addresses of functions in libraries loaded at run time."""

import ctypes
from collections.abc import Iterable


def addresses_of(library: ctypes.CDLL, names: Iterable[str]) -> dict[str, int]:
    """The addresses of functions, by name; AttributeError if one is missing."""
    found = {}
    for name in names:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None
        found[name] = address
    return found
