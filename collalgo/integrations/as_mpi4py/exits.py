"""How the process learns, while it ends, that ``sys.exit`` has ended the program.

Exit handlers do not receive the status. So ``sys.exit`` raises an exception that
knows when the interpreter drops it, which is when no code of Python runs.
"""

import sys
from typing import Any, NoReturn

_statuses: list[Any] = []


class _Exit(SystemExit):
    def __del__(self) -> None:
        try:
            sys._getframe(1)
        except ValueError:  # nothing has caught it
            note(self.code)


def _exit(status: Any = None, /) -> NoReturn:
    """Exit the interpreter, as ``sys.exit``."""
    raise _Exit(status)


def watch() -> None:
    """Let ``sys.exit`` be noted."""
    sys.exit = _exit


def note(status: Any) -> None:
    """Record the exit status of the program."""
    _statuses.append(status)


def failure() -> str | None:
    """Why the program has failed, if it ends with a status that is not 0."""
    if not _statuses or _statuses[-1] in (None, 0):
        return None
    return f"the program called sys.exit({_statuses[-1]!r})"
