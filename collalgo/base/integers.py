"""Integers that users pass: of any type that has them, and within a range."""

from operator import index
from reprlib import repr as short
from typing import Any

#: The largest that compiled code can take.
INT64_MAX = 2**63 - 1


def integer(
    value: Any, name: str, caller: str, least: int, most: int = INT64_MAX
) -> int:
    """An integer from ``least`` to ``most``; ``name`` says of what, ``caller`` where.

    Raises
    ------
    TypeError
        If it is of no type of integers, as a float is not, even if it is whole.
    ValueError
        If it is out of range.

    >>> integer(True, "root", "reduce", 0)
    1
    >>> integer(1.0, "root", "reduce", 0, 3)
    Traceback (most recent call last):
        ...
    TypeError: reduce: root is 1.0, of type float; pass an integer from 0 to 3
    """
    try:
        number = index(value)
    except TypeError:
        raise TypeError(
            f"{caller}: {name} is {shown(value)}, of type {type(value).__name__}; "
            f"pass an integer {_range(least, most)}"
        ) from None
    if not least <= number <= most:
        raise ValueError(
            f"{caller}: {name} is {shown(number)}, which is out of range; pass an "
            f"integer {_range(least, most)}"
        )
    return number


def rank_of(value: Any, name: str, caller: str, size: int) -> int:
    """A rank of a communicator of so many ranks.

    Raises
    ------
    TypeError, ValueError
        As of :func:`integer`.
    """
    try:
        number = index(value)
    except TypeError:
        return integer(value, name, caller, 0, size - 1)
    if not 0 <= number < size:
        raise ValueError(
            f"{caller}: {name} {shown(number)} is out of range; this communicator has "
            f"{size} ranks, 0 to {size - 1}"
        )
    return number


def shown(value: Any) -> str:
    """How a value shows in a message: in one line that is not too long."""
    try:
        return " ".join(short(value).split())
    except ValueError:  # Python refuses to write integers of so many digits
        return f"an integer of {value.bit_length()} bits"


def _range(least: int, most: int) -> str:
    if most == INT64_MAX:
        return f"from {least} up" if least > -most else "of 64 bits"
    return f"from {least} to {most}"
