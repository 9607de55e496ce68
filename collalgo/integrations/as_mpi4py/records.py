"""The records of messages: what a sender writes, and what a receiver reads."""

import struct
from typing import NamedTuple, TypeVar

from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG

#: The head of a record: its kind, whether the sender waits for the match, the rank and
#: the tag of the sender, the communicator, the bytes of the message, and its number.
HEAD = struct.Struct("=BBxxiqQqq")

#: The kinds of records: a message, the announcement of one, and that one was matched.
WHOLE, ANNOUNCED, MATCHED = range(3)


Item = TypeVar("Item")


class Arrival(NamedTuple):
    """A message that has come, or that was announced."""

    sender: int
    source: int
    tag: int
    nbytes: int
    number: int
    is_awaited: bool
    data: bytes | None

    def fits(self, source: int, tag: int) -> bool:
        """Whether a receive from a source with a tag takes it."""
        is_from = source == self.source or source == ANY_SOURCE  # noqa: PLR1714
        return is_from and (tag == self.tag or tag == ANY_TAG)  # noqa: PLR1714


def removed(table: dict[int, list[Item]], context: int, place: int) -> Item:
    """Remove an item of a communicator, which takes no memory without items."""
    waiting = table[context]
    found = waiting.pop(place)
    if not waiting:
        del table[context]
    return found
