"""The messages that a rank sends to another."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from collalgo.base.cache import make_room
from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.channel import EAGER_BYTES, Channel
from collalgo.comm.point_to_point.errors import End
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.record import Kind, Record, unpack


class Outbox:
    """The messages from this rank to another that are not done.

    Parameters
    ----------
    me, peer
        The two ranks.
    """

    def __init__(self, me: int, peer: int):
        self._me, self._peer = me, peer
        self._channel: Channel | None = None
        self._count = 0  # of all messages
        self._unsent: deque[Message] = deque()  # until the two are connected
        self._asked: dict[int, Message] = {}  # which wait for an answer
        self._refused: dict[int, BaseException] = {}  # of the last message of a tag

    @property
    def waits(self) -> bool:
        """Whether a message waits for an answer."""
        return bool(self._asked)

    @property
    def is_unread(self) -> bool:
        """Whether the other rank has still to read what is done for its caller."""
        if any(each.is_copy for each in self._waiting()):
            return True
        return self._channel is not None and self._channel.is_writing

    def connect(self, channel: Channel) -> None:
        """Send what has waited for the channel."""
        self._channel = channel
        while self._unsent:
            self._send(self._unsent.popleft(), channel)

    def send(self, message: Message) -> None:
        """Begin to send a message."""
        if self._channel is not None:
            self._send(message, self._channel)
        else:
            self._unsent.append(message.detach() if self._fits(message) else message)

    def pop_refusal(self, tag: int) -> BaseException | None:
        """The error of an earlier message of a tag, whose call has returned."""
        return self._refused.pop(tag, None)

    def has_room_for(self, message: Message) -> bool:
        """Whether a message need not wait for room; a long one never does."""
        channel = self._channel
        is_long = channel is None or message.array.nbytes > channel.eager_bytes
        return is_long or (channel is not None and channel.has_room())

    def withdraw(self, message: Message) -> bool:
        """Give up a message: whether it is one of these."""
        if message in self._unsent:
            met = errors.not_met(message.name, self._me, self._peer, message.timeout)
            message.end(met)
        elif self._asked.get(message.number) is message:
            message.end(errors.not_received(message, self._me, self._peer))
        else:
            return False
        self._remove(message)
        return True

    def clear(self, record: Record) -> None:
        """Send the elements of a message, to which its receiver agrees."""
        message = self._asked.pop(record.number, None)
        if message is not None and self._channel is not None:
            data = Record.of(Kind.DATA, message)
            message.follow(self._channel.write_later(data, message.array))

    def learn_refusal(self, record: Record, behind: NDArray[np.uint8]) -> None:
        """The other rank expects something else than this one has sent."""
        sender = End.of(self._me, unpack(behind)[0])
        receiver = End.of(self._peer, record)
        error = errors.mismatch(record.number, sender, receiver, self._me)
        message = self._asked.pop(record.number, None)
        if message is None or message.is_copy:  # its call has returned
            message = self._next_of(record.tag)
        if message is not None:
            message.end(error)
        else:
            self._refuse(record.tag, error)

    def drop(self) -> list[Message]:
        """Forget all messages, which fail."""
        waiting = self._waiting()
        self._unsent.clear()
        self._asked.clear()
        return waiting

    def cannot_connect(self, error: BaseException) -> None:
        """Fail the messages that wait for the channel, or the next of their tags."""
        while self._unsent:
            message = self._unsent.popleft()
            if message.is_copy:
                self._refuse(message.tag, error)
            message.end(error)

    def _waiting(self) -> list[Message]:
        return [*self._asked.values(), *self._unsent]

    def _fits(self, message: Message) -> bool:
        """Whether a message may be copied until the two are connected."""
        kept = sum(each.array.nbytes for each in self._unsent)
        return not message.on_device and kept + message.array.nbytes <= EAGER_BYTES

    def _send(self, message: Message, channel: Channel) -> None:
        self._count += 1
        message.number = self._count
        if self._is_eager(message, channel):
            elements = np.ascontiguousarray(message.array).reshape(-1).view(np.uint8)
            channel.give(Record.of(Kind.EAGER, message), elements)
            message.end()
        else:
            self._asked[message.number] = message
            channel.write(Record.of(Kind.REQUEST, message))

    @staticmethod
    def _is_eager(message: Message, channel: Channel) -> bool:
        """Whether a message is sent at once: its receiver may be in another call.

        If there is no room a copy waits in the background, so that two ranks which send
        before they receive do not wait for each other.
        """
        if message.is_copy:
            return True
        nbytes = message.array.nbytes
        is_short = nbytes <= channel.eager_bytes and not message.on_device
        return is_short and channel.may_give(nbytes)

    def _next_of(self, tag: int) -> Message | None:
        """Give up the first message of a tag whose call has not returned."""
        for message in self._waiting():
            if message.tag == tag and not message.is_copy:
                self._remove(message)
                return message
        return None

    def _remove(self, message: Message) -> None:
        if self._asked.pop(message.number, None) is None:
            self._unsent.remove(message)
        elif self._channel is not None:
            self._channel.write(Record.of(Kind.WITHDRAWAL, message))

    def _refuse(self, tag: int, error: BaseException) -> None:
        """Keep an error for the next message of a tag."""
        self._refused[tag] = error
        make_room(self._refused)
