"""Dictionaries that remember the newest of what was made."""

from collections.abc import Callable
from typing import Any, TypeVar

#: Entries that are kept; the oldest make room.
REMEMBERED = 512

Value = TypeVar("Value")


def make_room(remembered: dict[Any, Any]) -> None:
    """Forget the oldest entries past :data:`REMEMBERED`."""
    while len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]


def recalled(
    remembered: dict[Any, Value], key: Any, make: Callable[[Any], Value]
) -> Value:
    """What is remembered under a key, or else made of it.

    A key with an op of mpi4py or a list of algorithms cannot be remembered.
    """
    try:
        return remembered[key]
    except KeyError:
        named = True
    except TypeError:
        named = False
    found = make(key)
    if named:
        remembered[key] = found
    make_room(remembered)
    return found
