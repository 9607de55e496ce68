"""Recognise objects of other packages without importing those packages."""

from typing import Any


def package_of(thing: Any) -> str:
    """The package that defines the type of an object.

    >>> package_of(1.0)
    'builtins'
    """
    return type(thing).__module__.partition(".")[0]
