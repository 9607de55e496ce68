"""Recognise objects of other packages without importing those packages."""

from typing import Any

#: Packages with immutable arrays.
IMMUTABLE = ("jax", "jaxlib")


def package_of(thing: Any) -> str:
    """The package that defines the type of an object.

    >>> package_of(1.0)
    'builtins'
    """
    return type(thing).__module__.partition(".")[0]


def is_immutable(thing: Any) -> bool:
    """Whether an object is an array that cannot change: one of JAX.

    >>> is_immutable(1.0)
    False
    """
    return package_of(thing) in IMMUTABLE and not isinstance(thing, type)
