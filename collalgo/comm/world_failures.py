"""The errors that a rank raises for the failures of its world."""

from typing import Any

from collalgo.bootstrap.context import Context
from collalgo.comm.failures import error_of
from collalgo.errors import CollalgoError

#: The ranks of a group that an error names.
NAMED = 8


def failure_error(context: Context, failure: dict[str, Any]) -> CollalgoError:
    """The error for a failure; that of a group names its ranks of the world."""
    error = error_of(context.transport.rank, failure, context.pair)
    members = context.members
    if members != tuple(range(len(members))) and context.pair is None:
        more = ", ..." if len(members) > NAMED else ""
        ranks = ", ".join(map(str, members[:NAMED])) + more
        error.args = (f"{error} (ranks of the group [{ranks}] of the world)",)
    return error
