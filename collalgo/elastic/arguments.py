"""Check the communicators that users pass."""

from typing import Any

from collalgo.base.integers import shown
from collalgo.comm.communicator import Communicator


def communicator(comm: Any, caller: str) -> Communicator:
    """A communicator; errors name the caller.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if isinstance(comm, Communicator):
        return comm
    raise TypeError(
        f"{caller}: comm is {shown(comm)}, of type {type(comm).__name__}; pass a "
        "communicator, as the one that the function of elastic.run gets"
    )
