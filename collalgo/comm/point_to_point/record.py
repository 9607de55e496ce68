"""The records that two ranks send each other on their channel.

A record has a fixed size, so that its receiver needs to know nothing of it. It says
what follows: the elements of a message, or nothing.
"""

import struct
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo.comm.point_to_point.message import Message

#: The bytes of a record, which fit into one line of shared memory.
RECORD_BYTES = 88

_LAYOUT = struct.Struct("<bbB?4xqqqq")

#: The most bytes of a message that travel in the record itself.
INLINE_BYTES = RECORD_BYTES - _LAYOUT.size


class Kind(IntEnum):
    """The meaning of a record.

    A short message is sent at once (``EAGER``). Of a long one the sender asks whether
    it may be sent (``REQUEST``); the receiver agrees once a call waits for it
    (``CLEAR``), and its elements follow (``DATA``).
    """

    EAGER = 0
    REQUEST = 1
    CLEAR = 2
    DATA = 3
    #: The receiver expects another dtype or number of elements. The record says which;
    #: that of the sender follows.
    REFUSAL = 4
    #: The sender no longer waits for the receiver's answer.
    WITHDRAWAL = 5
    #: The receiver has taken short messages, so that more may be sent.
    CREDIT = 6


class Record(NamedTuple):
    """What one rank tells another.

    Attributes
    ----------
    kind : Kind
        Its meaning.
    dtype, itemsize : int
        The dtype of the message, as its place in the list of dtypes, and its bytes.
    on_device : bool
        Whether its array is on a device.
    tag : int
        The tag of the message.
    number : int
        The number of the message among all that its sender sends to its receiver.
    count : int
        The number of elements of the message.
    taken : int
        The bytes of short messages that the sender of this record has taken so far.
    """

    kind: Kind
    dtype: int = 0
    itemsize: int = 0
    on_device: bool = False
    tag: int = 0
    number: int = 0
    count: int = 0  # type: ignore[assignment]  # it hides a method that is not used
    taken: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the elements of the message."""
        return int(self.count) * self.itemsize

    @classmethod
    def of(cls, kind: Kind, message: Message) -> "Record":
        """The record of a message, at either of its ends."""
        array = message.array
        what = message.dtype, array.itemsize, message.on_device
        return cls(kind, *what, message.tag, message.number, array.size)

    def pack(self, behind: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
        """The record as bytes, with a few bytes behind it."""
        packed = np.zeros(RECORD_BYTES, np.uint8)
        _LAYOUT.pack_into(packed.data, 0, *self)
        if behind is not None:
            packed[_LAYOUT.size : _LAYOUT.size + len(behind)] = behind
        return packed

    def head(self) -> NDArray[np.uint8]:
        """The record as bytes, to be put behind another."""
        return self.pack()[: _LAYOUT.size]


def unpack(packed: NDArray[np.uint8]) -> tuple[Record, NDArray[np.uint8]]:
    """A record, and the bytes behind it."""
    kind, *fields = _LAYOUT.unpack_from(packed.data)
    return Record(Kind(kind), *fields), packed[_LAYOUT.size :]
