"""Check the arguments that users of elastic jobs pass."""

from typing import Any

from collalgo.base.arguments import wrong_type
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
    advice = "a communicator, as the one that the function of elastic.run gets"
    raise wrong_type(caller, "comm", comm, advice)


def check_function(of: Any, caller: str) -> None:
    """Check that what computes a shard can be called.

    Raises
    ------
    TypeError
        If it cannot.
    """
    if not callable(of):
        raise wrong_type(caller, "of", of, "a function of the number of a shard")


def check_name(name: str, kind: type) -> None:
    """Check the name of a value of a state of some class.

    Raises
    ------
    ValueError
        If the class has it, or keeps it for itself.
    """
    if name.startswith("_") or hasattr(kind, name):
        raise ValueError(
            f"elastic.State: the name {name!r} is one of its own; choose another name"
        )
