"""Messages of the launcher itself."""

import sys
from contextlib import suppress


def report(text: str) -> None:
    """Write a message of the launcher to standard error, if that is open."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"collalgo run: {text}\n")
            sys.stderr.flush()
