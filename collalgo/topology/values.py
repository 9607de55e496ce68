"""Numbers and names of files, within limits."""

import re
from collections.abc import Sequence
from typing import Any

from collalgo.base.arguments import shown
from collalgo.errors import TopologyError

#: The largest integer of a parameter.
MOST = (1 << 63) - 1


def number(value: Any, what: str, least: float = 0.0, most: float = 1e12) -> float:
    """Parse a number within limits.

    Raises
    ------
    TopologyError
        If it is invalid or out of range; the message begins with ``what``.
    """
    try:
        found = float("" if isinstance(value, bool) else value)
    except OverflowError:  # an integer that no float can be
        raise _not_between(what, value, least, most) from None
    except (TypeError, ValueError):
        raise TopologyError(f"{what}: {_text(value)[:40]!r} is not a number") from None
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found:g} is not between {least:g} and {most:g}")
    return found


def integer(value: Any, what: str, least: int = 0, most: int = 1_000_000) -> int:
    """Parse an integer within limits, decimal or with 0x."""
    text = _text(value).strip()
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]{1,15}|[0-9]{1,18})", text):
        if type(value) is int:
            raise _not_between(what, value, least, most)
        raise TopologyError(f"{what}: {text[:40]!r} is not an integer")
    found = int(text, 16 if "x" in text.lower() else 10)
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found} is not between {least} and {most}")
    return found


def check_integers(what: str, value: object) -> None:
    """Refuse integers that may have more digits than Python shows."""
    for one in value if isinstance(value, Sequence) else (value,):
        if isinstance(one, int) and abs(one) > MOST:
            raise TopologyError(f"{what}={shown(value)} is not possible")


def name(value: Any, what: str) -> str:
    """A name: a word or a whole number; others must be in quotes."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _text(value)
    if isinstance(value, float | bool):
        raise TopologyError(f"{what}: write the name {value} in quotes")
    raise TopologyError(f"{what}: {_text(value)[:40]!r} is not a name")


def _text(value: Any) -> str:
    """A value as text, also an integer of too many digits."""
    try:
        return str(value)
    except ValueError:
        return shown(value)


def _not_between(what: str, value: int, least: float, most: float) -> TopologyError:
    """The error of a long integer."""
    return TopologyError(
        f"{what}: {shown(value)} is not between {least:g} and {most:g}"
    )
