"""The messages that a rank receives from another, matched by their tags."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.by_tag import ByTag
from collalgo.comm.point_to_point.channel import Channel
from collalgo.comm.point_to_point.errors import End
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.record import Kind, Record


@dataclass
class Arrival:
    """A message that no call has taken yet, with its elements if it is short."""

    record: Record
    elements: NDArray[np.uint8] | None = None
    withdrawn: bool = False


class Inbox:
    """The messages from another rank to this one that are not done.

    Parameters
    ----------
    me, peer
        The two ranks.
    error
        Gives the error of a call by its name; None while calls can be made.

    Attributes
    ----------
    posted : ByTag
        The receives that wait for a message.
    """

    def __init__(
        self, me: int, peer: int, error: Callable[[str], BaseException | None]
    ):
        self.posted: ByTag[Message] = ByTag()
        self._me, self._peer, self._error = me, peer, error
        self._channel: Channel | None = None
        self._unexpected: ByTag[Arrival] = ByTag()
        self._cleared: dict[int, Message] = {}  # which wait for their elements

    @property
    def waits(self) -> bool:
        """Whether a call waits for a message."""
        return bool(self._cleared or self.posted)

    def connect(self, channel: Channel) -> None:
        self._channel = channel

    def receive(self, message: Message) -> bool:
        """Take a message that has come: whether there is one."""
        arrival = self._unexpected.first(message.tag)
        if arrival is not None:
            self._unexpected.remove(message.tag, arrival)
            self._take(message, arrival)
        return arrival is not None

    def arrive(self, arrival: Arrival, message: Message | None) -> None:
        """Give a message to the call that waits for it, or keep it."""
        if message is None:
            self._unexpected.add(arrival.record.tag, arrival)
        else:
            self._take(message, arrival)

    def withdraw(self, message: Message) -> bool:
        """Give up a receive: whether it is one of these."""
        if not self.posted.remove(message.tag, message):
            if self._cleared.get(message.number) is not message:
                return False
            del self._cleared[message.number]
        message.end(errors.nothing_came(message, self._me, (self._peer,)))
        return True

    def pop_cleared(self, number: int) -> Message | None:
        """The receive whose elements follow; None if it was given up."""
        return self._cleared.pop(number, None)

    def put_back(self, message: Message) -> None:
        """Let a receive wait for its elements again."""
        self._cleared[message.number] = message

    def learn_withdrawal(self, record: Record) -> None:
        """The other rank has given up a message that it asked about."""
        message = self._cleared.pop(record.number, None)
        if message is not None:
            message.end(self._withdrawn(record))
        for arrival in self._unexpected:
            arrival.withdrawn |= arrival.record.number == record.number

    def drop(self) -> list[Message]:
        """Forget all receives, which fail."""
        waiting = [*self._cleared.values(), *self.posted]
        self._cleared.clear()
        self.posted.clear()
        return waiting

    def cannot_connect(self, error: BaseException) -> None:
        """Fail the receives that wait for the channel."""
        for message in self.drop():
            message.end(error)

    def _take(self, message: Message, arrival: Arrival) -> None:
        record, elements = arrival.record, arrival.elements
        message.source, message.number = self._peer, record.number
        error = self._error(message.name)
        if elements is not None and self._channel is not None and error is None:
            self._channel.take(len(elements))
        if arrival.withdrawn:
            message.end(self._withdrawn(record))
        elif self._refuses(message, record):
            return
        elif elements is not None:
            array = message.array
            array[...] = elements.view(array.dtype).reshape(array.shape)
            message.end()
        elif error is not None:
            message.end(error)
        else:
            self._cleared[record.number] = message
            self._answer(Kind.CLEAR, message)

    def _refuses(self, message: Message, record: Record) -> bool:
        """Whether a message differs from what a call expects, which both are told."""
        sender = End.of(self._peer, record)
        receiver = End.of(self._me, Record.of(Kind.REFUSAL, message))
        if not errors.differs(sender, receiver):
            return False
        message.end(errors.mismatch(record.number, sender, receiver, self._me))
        if self._error(message.name) is None:
            self._answer(Kind.REFUSAL, message, record.head())
        return True

    def _answer(
        self, kind: Kind, message: Message, behind: NDArray[np.uint8] | None = None
    ) -> None:
        assert self._channel is not None
        self._channel.write(Record.of(kind, message), behind)

    def _withdrawn(self, record: Record) -> BaseException:
        return errors.withdrawn(record.number, self._me, self._peer, record.tag)
