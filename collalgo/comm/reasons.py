"""Exceptions in words, for the ranks that have not raised them."""

import traceback
from pathlib import Path

#: The most characters of an exception that are sent to the other ranks.
REASON = 150


def reason_of(error: BaseException) -> str:
    """An exception in words for the other ranks: its type, message and place."""
    reason = f"{type(error).__name__}: {error}"
    places = traceback.extract_tb(error.__traceback__)
    if not places:
        return reason
    last = places[-1]
    file = Path(last.filename).name
    return f"{reason[:REASON]} (at {file}:{last.lineno} in {last.name})"
