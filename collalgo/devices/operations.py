"""What the streams of devices do, and where."""

from typing import NamedTuple, TypeAlias

#: The buffer in which a rank keeps what it sends and writes over; the others are those
#: of its plan.
OUTBOX = 3


class Place(NamedTuple):
    """Bytes of a buffer of a rank."""

    rank: int
    buffer: int
    at: int


class Flag(NamedTuple):
    """A number that only grows, set by one rank and read by another.

    It counts the messages between two ranks on a lane: those that are ``ready`` to be
    read, or those that have been read.
    """

    sender: int
    receiver: int
    lane: int
    ready: bool


class Signal(NamedTuple):
    """Set a flag, when all that comes before on the stream is done."""

    flag: Flag
    number: int


class Wait(NamedTuple):
    """Let what follows on the stream wait until a flag has at least a number."""

    flag: Flag
    number: int


class Combine(NamedTuple):
    """Reduce bytes of some places, in their order, or copy those of one.

    A complete sum may then be divided by the number of ranks.
    """

    target: Place
    sources: tuple[Place, ...]
    nbytes: int
    divide: bool = False


Operation: TypeAlias = Signal | Wait | Combine


class DeviceProgram(NamedTuple):
    """What the stream of a rank does.

    Attributes
    ----------
    operations : list
        In the order of the stream.
    scratch_bytes, outbox_bytes : int
        What these buffers must hold.
    """

    operations: list[Operation]
    scratch_bytes: int
    outbox_bytes: int
