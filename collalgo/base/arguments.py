"""The errors of arguments of users: values in messages, and wrong types."""

from reprlib import repr as short
from typing import Any


def shown(value: Any) -> str:
    """A value as it appears in messages: one short line."""
    try:
        return " ".join(short(value).split())
    except ValueError:  # Python limits the digits of an integer as text
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a {type(value).__name__} with a longer integer than Python shows"


def wrong_type(caller: str, name: str, value: Any, advice: str) -> TypeError:
    """The error of an argument that has a wrong type.

    Parameters
    ----------
    caller
        The call.
    name
        The argument.
    value
        The value that was passed.
    advice
        What to pass, without the verb.

    >>> wrong_type("reduce", "root", 1.0, "an integer")
    TypeError('reduce: root is 1.0, of type float; pass an integer')
    """
    kind = type(value).__name__
    return TypeError(
        f"{caller}: {name} is {shown(value)}, of type {kind}; pass {advice}"
    )
