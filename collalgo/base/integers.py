"""Check integer arguments of users: any integer type, within a range."""

from collections.abc import Iterable
from operator import index
from typing import Any

from collalgo.base.arguments import shown, wrong_type

#: The largest integer that compiled code accepts.
INT64_MAX = 2**63 - 1


def _index(value: Any) -> int:
    """The value of an integer; truth values are refused also where NumPy is older."""
    if type(value) is not int and getattr(value, "dtype", None) == "bool":
        raise TypeError
    return index(value)


def integer(
    value: Any, name: str, caller: str, least: int, most: int = INT64_MAX
) -> int:
    """An integer from ``least`` to ``most``; errors name the argument and the caller.

    Raises
    ------
    TypeError
        If the value has no integer type; a float is refused even if it is whole.
    ValueError
        If the value is out of range.

    >>> integer(True, "root", "reduce", 0)
    1
    >>> integer(1.0, "root", "reduce", 0, 3)
    Traceback (most recent call last):
        ...
    TypeError: reduce: root is 1.0, of type float; pass an integer from 0 to 3
    """
    try:
        number = _index(value)
    except TypeError:
        advice = f"an integer {_range(least, most)}"
        raise wrong_type(caller, name, value, advice) from None
    if not least <= number <= most:
        raise ValueError(
            f"{caller}: {name} is {shown(number)}, which is out of range; pass an "
            f"integer {_range(least, most)}"
        )
    return number


def shape_of(shape: Any, caller: str) -> tuple[int, ...]:
    """The lengths of the axes of a shape, which is an integer or several.

    >>> shape_of((2, 0), "empty")
    (2, 0)
    """
    given = getattr(shape, "tolist", lambda: shape)()
    lengths = given if isinstance(given, Iterable) else (given,)
    return tuple(integer(length, "shape", caller, 0) for length in lengths)


def rank_of(value: Any, name: str, caller: str, size: int) -> int:
    """A rank of a communicator of ``size`` ranks.

    Raises
    ------
    TypeError, ValueError
        As of :func:`integer`.
    """
    try:
        number = _index(value)
    except TypeError:
        return integer(value, name, caller, 0, size - 1)
    if not 0 <= number < size:
        raise ValueError(
            f"{caller}: {name} {shown(number)} is out of range; this communicator has "
            f"{size} ranks, 0 to {size - 1}"
        )
    return number


def _range(least: int, most: int) -> str:
    if most == INT64_MAX:
        return f"from {least} to 2**63 - 1" if least > -most else "of 64 bits"
    return f"from {least} to {most}"
