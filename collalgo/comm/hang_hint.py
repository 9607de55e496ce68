"""The hint of an error of a timeout at the commands that find the cause of a hang."""

import os
from contextlib import suppress
from typing import TypeVar

from collalgo.base.environment import DUMP
from collalgo.bootstrap.identity import launcher_of
from collalgo.comm.tracing.dump import listens
from collalgo.errors import BootstrapError, CollalgoError, CollectiveTimeout

Error = TypeVar("Error", bound=CollalgoError)

_shown = set[int]()  # the processes whose first timeout has the hint


def with_hint(error: Error) -> Error:
    """The error; the first timeout of a process gets the hint, where it is true."""
    first = isinstance(error, CollectiveTimeout) and os.getpid() not in _shown
    if first and (hint := _hint()):
        _shown.add(os.getpid())
        error.args = (f"{error} ({hint})",)
    return error


def _hint() -> str:
    """The commands that show the calls of all ranks; empty if they find no rank."""
    if not listens() or not _is_launched():
        return ""
    if folder := DUMP.given():
        return f"to see where each rank was: collalgo trace analyze {folder}"
    return (
        "to see where each rank is: collalgo trace dump during the wait, or "
        "COLLALGO_DUMP=FOLDER"
    )


def _is_launched() -> bool:
    """Whether a launcher has started this process as a rank."""
    with suppress(BootstrapError):
        return launcher_of(os.environ, by_depth=False) is not None
    return False
