"""Numbers and names of files, within limits."""

import re
from typing import Any

from collalgo.errors import TopologyError


def number(value: Any, what: str, least: float = 0.0, most: float = 1e12) -> float:
    """Parse a number within limits.

    Raises
    ------
    TopologyError
        If it is invalid or out of range; the message begins with ``what``.
    """
    try:
        found = float("" if isinstance(value, bool) else value)
    except (TypeError, ValueError, OverflowError):
        raise TopologyError(f"{what}: {str(value)[:40]!r} is not a number") from None
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found:g} is not between {least:g} and {most:g}")
    return found


def integer(value: Any, what: str, least: int = 0, most: int = 1_000_000) -> int:
    """Parse an integer within limits, decimal or with 0x."""
    text = str(value).strip()
    if not re.fullmatch(r"-?(0[xX][0-9a-fA-F]{1,15}|[0-9]{1,18})", text):
        raise TopologyError(f"{what}: {text[:40]!r} is not an integer")
    found = int(text, 16 if "x" in text.lower() else 10)
    if not least <= found <= most:
        raise TopologyError(f"{what}: {found} is not between {least} and {most}")
    return found


def name(value: Any, what: str) -> str:
    """A name: a word or a whole number; others must be in quotes."""
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float | bool):
        raise TopologyError(f"{what}: write the name {value} in quotes")
    raise TopologyError(f"{what}: {str(value)[:40]!r} is not a name")
