"""The reasons for the end of a rank, in words for the others."""

from pathlib import Path

from collalgo.base.environment import TIMEOUT
from collalgo.base.source_lines import place_of

#: The reason of a rank that has closed its communicator.
CLOSED = "its communicator was closed"

#: The timeout of calls that pass none, also those of programs that cannot pass one.
OF_DEFAULT = f"{TIMEOUT.name} sets the default"

#: The most characters of an exception that are sent to the other ranks.
REASON = 150


def reason_of(error: BaseException) -> str:
    """An exception in words for the other ranks: its type, message and place."""
    reason = ": ".join(filter(None, (type(error).__name__, str(error))))
    if (place := place_of(error)) is None:
        return reason
    file, line, function = place
    return f"{reason[:REASON]} (at {Path(file).name}:{line} in {function})"
