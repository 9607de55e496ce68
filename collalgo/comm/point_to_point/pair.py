"""The messages between this rank and one other, matched by their tags.

All tags share one channel. The receiver reads whatever comes: a short message that no
call waits for is kept, up to a limit; of a long one only the question of its sender is
kept, which goes on when a call takes the message. So calls may receive in any order.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collalgo.base.cache import make_room
from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.by_tag import ByTag
from collalgo.comm.point_to_point.channel import EAGER_BYTES, Channel
from collalgo.comm.point_to_point.errors import End
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.record import (
    INLINE_BYTES,
    RECORD_BYTES,
    Kind,
    Record,
    unpack,
)
from collalgo.errors import CollalgoError, CommunicatorClosed, PeerFailed

if TYPE_CHECKING:
    from collalgo.comm.point_to_point.pairs import Pairs

#: The most bytes of short messages that a rank keeps for another before it receives
#: them; further ones wait at their sender.
KEPT_BYTES = 4 << 20

#: Why a rank is gone that has left in good order.
CLOSED = "its communicator was closed"

#: The error of a call by its name, after the pair has failed.
Failure = Callable[[str], BaseException]


@dataclass
class Arrival:
    """A message that no call has taken yet."""

    record: Record
    elements: NDArray[np.uint8] | None = None
    withdrawn: bool = False


class Pair:
    """The messages between this rank and one other.

    The caller of a method holds the lock of all pairs, but for :meth:`read`.

    Parameters
    ----------
    peer
        The other rank.
    pairs
        All pairs of this rank.

    Attributes
    ----------
    posted : ByTag
        The receives from this rank that wait for a message.
    channel : Channel or None
        Connects the two, from their first message on.
    has_left : bool
        Whether the other rank has closed its communicator.
    """

    def __init__(self, peer: int, pairs: "Pairs"):
        self.peer = peer
        self.channel: Channel | None = None
        self.posted: ByTag[Message] = ByTag()
        self.has_left = False
        self._me, self._pairs = pairs.rank, pairs
        self._unexpected: ByTag[Arrival] = ByTag()
        self._unsent: deque[Message] = deque()  # until the two are connected
        self._asked: dict[int, Message] = {}  # sends that wait for an answer
        self._cleared: dict[int, Message] = {}  # receives that wait for elements
        self._refused: dict[int, BaseException] = {}  # of the last send of a tag
        self._failure: Failure | None = None
        self._reading = Lock()
        self._sent = 0  # messages
        self._given = self._taken_there = 0  # bytes of short messages, sent and taken,
        self._taken = self._told = 0  # and received and taken, and as last told

    # ---- calls

    @property
    def waits(self) -> bool:
        """Whether a call waits for records of the other rank."""
        return bool(self._asked or self._cleared or self.posted)

    @property
    def has_unsent(self) -> bool:
        """Whether the other rank has still to read what is done for its caller."""
        if any(each.is_copy for each in (*self._unsent, *self._asked.values())):
            return True
        return self.channel is not None and self.channel.is_writing

    def connected(self, channel: Channel) -> None:
        """Send what has waited for the channel."""
        self.channel = channel
        while self._unsent:
            self._send(self._unsent.popleft())

    def send(self, message: Message) -> None:
        """Begin to send a message."""
        refusal = self._refused.pop(message.tag, None)
        if refusal is not None:
            message.end(refusal)
        elif self._failure is not None:
            message.end(self._failure(message.name))
        elif self.channel is not None:
            self._send(message)
        else:
            self._unsent.append(message.detach() if self._fits(message) else message)

    def _fits(self, message: Message) -> bool:
        """Whether a message may be copied until the two are connected."""
        kept = sum(each.array.nbytes for each in self._unsent)
        return not message.on_device and kept + message.array.nbytes <= EAGER_BYTES

    def receive(self, message: Message) -> bool:
        """Take a message that has come: whether there is one."""
        arrival = self._unexpected.first(message.tag)
        if arrival is not None:
            self._unexpected.remove(message.tag, arrival)
            self._take(message, arrival)
        return arrival is not None

    def post(self, message: Message) -> None:
        """Let a receive wait for its message."""
        if self._failure is not None:
            message.end(self._failure(message.name))
        else:
            self.posted.add(message.tag, message)

    def withdraw(self, message: Message) -> None:
        """Give up a message that still waits for the other rank."""
        if self.posted.remove(message.tag, message):
            message.end(errors.nothing_came(message, self._me, (self.peer,)))
        elif message in self._unsent:
            self._unsent.remove(message)
            message.end(
                errors.not_met(message.name, self._me, self.peer, message.timeout)
            )
        elif self._asked.get(message.number) is message:
            del self._asked[message.number]
            self._write(Kind.WITHDRAWAL, message.number, message.tag)
            message.end(errors.not_received(message, self._me, self.peer))
        elif self._cleared.get(message.number) is message:
            message.end(errors.nothing_came(message, self._me, (self.peer,)))
            self.abort(f"it gave up {message.name} after {message.timeout:g} s")

    def fail(self, failure: Failure) -> None:
        """Fail all calls that wait for the other rank, and those to come."""
        self._failure = self._failure or failure
        waiting = [*self._unsent, *self._asked.values(), *self._cleared.values()]
        waiting += self.posted
        for waiters in (self._unsent, self._asked, self._cleared, self.posted):
            waiters.clear()
        for message in waiting:
            message.end(self._failure(message.name))

    def abort(self, reason: str) -> None:
        """Close the channel because of an error here."""
        if self.channel is not None:
            self.channel.abort(reason)
        self.fail(partial(errors.gone, rank=self._me, peer=self._me, why=reason))

    # ---- sending

    def _send(self, message: Message) -> None:
        assert self.channel is not None
        self._sent += 1
        message.number = self._sent
        kind = Kind.EAGER if self._is_eager(message) else Kind.REQUEST
        record = self._record(kind, message)
        if kind is Kind.EAGER:
            elements = np.ascontiguousarray(message.array).reshape(-1).view(np.uint8)
            self._given += len(elements) + RECORD_BYTES
            self.channel.write(record, elements)
            message.end()
        else:
            self._asked[message.number] = message
            self.channel.write(record)

    def has_room_for(self, message: Message) -> bool:
        """Whether a message need not wait for room; a long one never does."""
        assert self.channel is not None
        is_short = message.array.nbytes <= self.channel.eager_bytes
        return not is_short or self.channel.has_room()

    def _is_eager(self, message: Message) -> bool:
        """Whether a message can be sent at once, without a wait."""
        assert self.channel is not None
        nbytes = message.array.nbytes
        if message.on_device or nbytes > self.channel.eager_bytes:
            return False
        kept = self._given - self._taken_there
        return kept + nbytes + RECORD_BYTES <= KEPT_BYTES and self.channel.has_room()

    def _record(self, kind: Kind, message: Message) -> Record:
        self._told = self._taken
        return Record(
            kind,
            message.dtype,
            message.array.itemsize,
            message.on_device,
            message.tag,
            message.number,
            message.array.size,
            self._taken,
        )

    def _write(self, kind: Kind, number: int = 0, tag: int = 0) -> None:
        """Send a record without a message."""
        assert self.channel is not None
        self._told = self._taken
        self.channel.write(Record(kind, 0, 0, False, tag, number, 0, self._taken))

    # ---- receiving

    def read(self) -> bool:
        """Read all records that have come: whether there were some."""
        if self.channel is None or not self._reading.acquire(blocking=False):
            return False
        found = False
        try:
            while (state := self.channel.state()) == "called":
                self._read_one(self.channel)
                found = True
            if state == "left" and not self.has_left:
                found = True
                self._leave()
        except CollalgoError as error:
            found = True
            self._lose(self.channel, error)
        finally:
            self._reading.release()
        return found

    def await_record(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next record; False if another thread does."""
        if self.channel is None or not self._reading.acquire(blocking=False):
            return False
        try:
            return self.channel.await_record(seconds)
        finally:
            self._reading.release()

    def _read_one(self, channel: Channel) -> None:
        record, inline = channel.read()
        elements = None
        if record.kind is Kind.EAGER:
            elements = self._elements(channel, record, inline)
        elif record.kind is Kind.DATA:
            self._read_long(channel, record)
        with self._pairs.lock:
            self._taken_there = record.taken
            self._handle(record, elements, inline)

    @staticmethod
    def _elements(
        channel: Channel, record: Record, inline: NDArray[np.uint8]
    ) -> NDArray[np.uint8]:
        """The bytes of a short message."""
        nbytes = record.nbytes
        if nbytes <= len(inline):
            return inline[:nbytes].copy()
        elements = np.empty(nbytes, np.uint8)
        channel.read_into(elements)
        return elements

    def _read_long(self, channel: Channel, record: Record) -> None:
        with self._pairs.lock:
            message = self._cleared.pop(record.number, None)
        if message is None:  # given up here, and the channel with it
            raise PeerFailed("the message was given up")
        try:
            if message.on_device:
                message.follow(channel.read_later(message.array))
            else:
                channel.read_long(message.array)
                message.end()
        except CollalgoError:
            with self._pairs.lock:
                self._cleared[record.number] = message
            raise

    def _handle(
        self,
        record: Record,
        elements: NDArray[np.uint8] | None,
        inline: NDArray[np.uint8],
    ) -> None:
        number = record.number
        if record.kind in (Kind.EAGER, Kind.REQUEST):
            self._arrive(Arrival(record, elements))
        elif record.kind is Kind.CLEAR and number in self._asked:
            assert self.channel is not None
            message = self._asked.pop(number)
            data = self._record(Kind.DATA, message)
            message.follow(self.channel.write_later(data, message.array))
        elif record.kind is Kind.REFUSAL:
            self._learn_refusal(record, inline)
        elif record.kind is Kind.WITHDRAWAL:
            self._learn_withdrawal(record)

    def _arrive(self, arrival: Arrival) -> None:
        """Give a message to the call that waits for it longest, or keep it."""
        message = self._pairs.take_posted(self, arrival.record.tag)
        if message is None:
            self._unexpected.add(arrival.record.tag, arrival)
        else:
            self._take(message, arrival)

    def _take(self, message: Message, arrival: Arrival) -> None:
        record, elements = arrival.record, arrival.elements
        message.source, message.number = self.peer, record.number
        if elements is not None:
            self._taken += len(elements) + RECORD_BYTES
        if arrival.withdrawn:
            message.end(
                errors.withdrawn(record.number, self._me, self.peer, record.tag)
            )
        elif self._refuses(message, record):
            pass
        elif elements is not None:
            array = message.array
            array[...] = elements.view(array.dtype).reshape(array.shape)
            message.end()
        elif self._failure is not None:
            message.end(self._failure(message.name))
        else:
            self._cleared[record.number] = message
            self._write(Kind.CLEAR, record.number, record.tag)
        if self._taken - self._told >= KEPT_BYTES // 4 and self._failure is None:
            self._write(Kind.CREDIT)

    def _refuses(self, message: Message, record: Record) -> bool:
        """Whether a message differs from what a call expects, which both are told."""
        sender = End(self.peer, record.dtype, record.count, record.on_device)
        mine = End(self._me, message.dtype, message.array.size, message.on_device)
        if not errors.differs(sender, mine):
            return False
        message.end(errors.mismatch(record.number, sender, mine, self._me))
        if self._failure is None and self.channel is not None:
            message.tag, message.number = record.tag, record.number
            theirs = record.pack()[:-INLINE_BYTES]
            self.channel.write(self._record(Kind.REFUSAL, message), theirs)
        return True

    def _learn_refusal(self, record: Record, theirs: NDArray[np.uint8]) -> None:
        """The other rank expects something else than this one has sent."""
        sent, _ = unpack(theirs)
        sender = End(self._me, sent.dtype, sent.count, sent.on_device)
        receiver = End(self.peer, record.dtype, record.count, record.on_device)
        error = errors.mismatch(record.number, sender, receiver, self._me)
        message = self._asked.pop(record.number, None)
        if message is None or message.is_copy:  # its call has returned
            message = self._next_send(record.tag)
        if message is not None:
            message.end(error)
        else:
            self._refused[record.tag] = error
            make_room(self._refused)

    def _next_send(self, tag: int) -> Message | None:
        """Give up the first send of a tag whose call has not returned."""
        for message in (*self._asked.values(), *self._unsent):
            if message.tag == tag and not message.is_copy:
                if self._asked.pop(message.number, None) is not None:
                    self._write(Kind.WITHDRAWAL, message.number, tag)
                else:
                    self._unsent.remove(message)
                return message
        return None

    def _learn_withdrawal(self, record: Record) -> None:
        """The other rank has given up a message that it asked about."""
        message = self._cleared.pop(record.number, None)
        error = errors.withdrawn(record.number, self._me, self.peer, record.tag)
        if message is not None:
            message.end(error)
        for arrival in self._unexpected:
            arrival.withdrawn |= arrival.record.number == record.number

    # ---- the end

    def _leave(self) -> None:
        """The other rank has closed its communicator."""
        with self._pairs.lock:
            self.has_left = True
            self.fail(partial(errors.gone, rank=self._me, peer=self.peer, why=CLOSED))
            self._pairs.lost(self)

    def _lose(self, channel: Channel, error: CollalgoError) -> None:
        """The channel has failed."""
        with self._pairs.lock:
            if isinstance(error, CommunicatorClosed):
                self.close()
            else:
                why = channel.exit_reason()
                self.fail(partial(errors.gone, rank=self._me, peer=self.peer, why=why))
            self._pairs.lost(self)

    def cannot_connect(self, error: BaseException) -> None:
        """Fail the calls that wait for the channel."""
        waiting = [*self._unsent, *self.posted]
        self._refused |= {message.tag: error for message in self._unsent}
        make_room(self._refused)
        self._unsent.clear()
        self.posted.clear()
        for message in waiting:
            message.end(error)

    def error(self, call: str) -> BaseException | None:
        """The error of a call with the other rank, if all calls fail."""
        return self._failure(call) if self._failure is not None else None

    def close(self) -> None:
        """Fail all calls, because this rank has closed the communicator."""
        self.fail(partial(errors.closed, rank=self._me))
        if self.channel is not None:
            self.channel.close()
