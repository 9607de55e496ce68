"""The errors that a rank raises for the failures of its world."""

from typing import Any

from collalgo.bootstrap.context import Context
from collalgo.comm.failures import error_of
from collalgo.comm.hang_hint import with_hint
from collalgo.errors import CollalgoError

#: The ranks of a group that an error names, and the words before them.
NAMED, OF_THE_GROUP = 8, "ranks of the group"


def failure_error(context: Context, failure: dict[str, Any]) -> CollalgoError:
    """The error for a failure; that of a group names its ranks of the world."""
    error = error_of(context.transport.rank, failure, context.pair)
    members = context.members if context.pair is None else context.members_of_both
    return with_hint(in_world(error, members))


def in_world(error: CollalgoError, members: tuple[int, ...]) -> CollalgoError:
    """An error that names ranks of a group, with the ranks of the world, once."""
    named = f"({OF_THE_GROUP} [{', '.join(map(str, members[:NAMED]))}"
    if members == tuple(range(len(members))) or named in str(error):
        return error
    more = ", ..." if len(members) > NAMED else ""
    error.args = (f"{error} {named}{more}] of the world)",)
    return error


def message_error(error: object, context: Context) -> object:
    """The error of a message, which names ranks if other ones are missing."""
    if isinstance(error, CollalgoError) and error.missing:
        return in_world(error, context.members)
    return error
