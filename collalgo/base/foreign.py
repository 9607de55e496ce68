"""Things of other packages, known without importing these."""

from typing import Any


def package_of(thing: Any) -> str:
    """The package that the type of a thing comes from.

    >>> package_of(1.0)
    'builtins'
    """
    return type(thing).__module__.partition(".")[0]
