"""The operations of device streams, and the places that they access."""

from typing import NamedTuple, TypeAlias

from collalgo._kernels.engine.transport.transport import LANES
from collalgo.engine.plan.rows import INPUT, OUTPUT, SCRATCH

#: The buffers of a rank: those of its plan, copies of sent bytes that it overwrites,
#: and its flags.
OUTBOX, FLAGS = 3, 4
BUFFERS = (INPUT, OUTPUT, SCRATCH, OUTBOX, FLAGS)

#: The buffer of received messages until they are combined. Programs with an inbox need
#: no outbox.
INBOX = OUTBOX

#: The bytes of a flag.
FLAG = 4


class Place(NamedTuple):
    """Bytes of a buffer of a rank."""

    rank: int
    buffer: int
    at: int


class Flag(NamedTuple):
    """A counter that grows in a call, set by one rank and read by another.

    It counts the messages between two ranks on a lane: those that are ``ready`` to be
    read, or those that have been read. It lies in the memory of the rank that
    waits for it.
    """

    sender: int
    receiver: int
    lane: int
    ready: bool

    def place(self, size: int) -> Place:
        """The place of the flag among ``size`` ranks."""
        ends = self.receiver, self.sender
        holder, other = ends if self.ready else ends[::-1]
        return Place(
            holder, FLAGS, FLAG * ((self.lane * size + other) * 2 + self.ready)
        )


def flag_bytes(size: int) -> int:
    """The bytes of all flags of one of ``size`` ranks."""
    return FLAG * 2 * LANES * size


class Signal(NamedTuple):
    """Set a flag once all earlier work of the stream is done."""

    flag: Flag
    number: int


class Wait(NamedTuple):
    """Make later work of the stream wait until a flag has at least a number."""

    flag: Flag
    number: int


class Clear(NamedTuple):
    """Reset a flag to 0, after the last wait for it in a call.

    The rank that sets it does so again only in another call, which it begins once all
    ranks have finished this one: so every call begins with flags that are 0, however
    often it is replayed.
    """

    flag: Flag


class Combine(NamedTuple):
    """Reduce the bytes of several places in order, or copy those of one.

    A complete sum may then be divided by the number of ranks.
    """

    target: Place
    sources: tuple[Place, ...]
    nbytes: int
    divide: bool = False


class Transfer(NamedTuple):
    """Bytes that one rank sends or receives."""

    place: Place
    nbytes: int
    peer: int


class Exchange(NamedTuple):
    """A group of sends and receives; both ranks list messages in the same order."""

    sends: tuple[Transfer, ...]
    receives: tuple[Transfer, ...]


Operation: TypeAlias = Signal | Wait | Clear | Combine


class DeviceProgram(NamedTuple):
    """The operations of the stream of a rank.

    Attributes
    ----------
    operations : list
        In the order of the stream.
    scratch_bytes, outbox_bytes : int
        The sizes of these buffers.
    """

    operations: list[Operation]
    scratch_bytes: int
    outbox_bytes: int


class GroupedProgram(NamedTuple):
    """The operations of the stream of a rank, for messages over a network.

    Attributes
    ----------
    operations : list
        In the order of the stream.
    scratch_bytes, inbox_bytes : int
        The sizes of these buffers.
    """

    operations: list[Exchange | Combine]
    scratch_bytes: int
    inbox_bytes: int
