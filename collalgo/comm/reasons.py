"""The reasons for the end of a rank, in words for the others."""

import traceback
from pathlib import Path

#: The reason of a rank that has closed its communicator.
CLOSED = "its communicator was closed"

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
