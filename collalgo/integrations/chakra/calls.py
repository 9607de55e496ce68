"""The calls of collectives in a Chakra trace."""

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from collalgo.base.input_files import read_bytes
from collalgo.integrations.chakra.nodes import COLLECTIVE, Node, nodes_of
from collalgo.integrations.chakra.wire import ChakraError

#: The most bytes of a file, and of a call.
LARGEST, MOST_BYTES = 1 << 28, 1 << 50

#: The collectives, by their numbers in traces.
COLLECTIVES = (
    *("allreduce", "reduce", "allgather", "gather", "scatter", "broadcast"),
    *("alltoall", "reduce_scatter", "reduce_scatter", "barrier"),
)


class Call(NamedTuple):
    """A call of a collective.

    Attributes
    ----------
    collective : str
        The collective.
    nbytes : int
        The bytes of the input of a rank, as the trace gives them.
    group : str
        The name of the process group, or nothing.
    """

    collective: str
    nbytes: int
    group: str


class Calls(NamedTuple):
    """The calls of a trace.

    Attributes
    ----------
    calls : Counter
        The number of times of each call, in the order of their first times.
    messages : int
        The number of sends and receives.
    unknown : int
        The number of collectives whose type or bytes the trace does not give, such as
        those on the host that launch one on the device.
    """

    calls: Counter[Call]
    messages: int
    unknown: int


def read_calls(path: str | Path) -> Calls:
    """Read the calls of a trace of one rank.

    Raises
    ------
    ChakraError
        If the file cannot be read or is too large, or is not a Chakra trace.
    """
    try:
        return calls_of(read_bytes(path, LARGEST))
    except ValueError as error:
        raise ChakraError(f"{path}: {error}") from None


def calls_of(data: bytes) -> Calls:
    """The calls of a trace, as :func:`read_calls`."""
    calls: Counter[Call] = Counter()
    messages = unknown = 0
    for node in nodes_of(data):
        if node.type != COLLECTIVE:
            messages += 1
        elif (call := _call(node)) is None:
            unknown += 1
        else:
            calls[call] += 1
    return Calls(calls, messages, unknown)


def _call(node: Node) -> Call | None:
    """The call of a collective, or None if its type or bytes are not known."""
    kind = node.attributes.get("comm_type")
    nbytes = node.attributes.get("comm_size")
    if type(kind) is not int or not 0 <= kind < len(COLLECTIVES):
        return None
    collective = COLLECTIVES[kind]
    if collective == "barrier":
        nbytes = 0
    if type(nbytes) is not int:
        return None
    if not 0 <= nbytes <= MOST_BYTES:
        raise ChakraError(f"node {node.id} has {nbytes} bytes, not 0 to {MOST_BYTES}")
    return Call(collective, nbytes, str(node.attributes.get("pg_name") or ""))
