"""The messages between this rank and one other, whose tags share one channel.

The receiver reads whatever comes: a short message that no call waits for is kept, up
to a limit; of a long one only the question of its sender is kept, which goes on when a
call takes the message. So calls may receive in any order.
"""

from collections.abc import Callable
from functools import partial
from threading import Lock, RLock, get_ident
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from collalgo.comm.failures import in_signal_handler
from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.channel import Channel
from collalgo.comm.point_to_point.inbox import Arrival, Inbox
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.outbox import Outbox
from collalgo.comm.point_to_point.record import Kind, Record
from collalgo.errors import CollalgoError, CommunicatorClosed, PeerFailed

#: Why a rank is gone that has left in good order.
CLOSED = "its communicator was closed"

#: The error of a call by its name, after the pair has failed.
Failure = Callable[[str], BaseException]


class Matching(Protocol):
    """What a pair needs of those of all ranks, among which receives are matched."""

    rank: int

    @property
    def lock(self) -> RLock: ...

    def take_posted(self, pair: "Pair", tag: int) -> Message | None:
        """The receive that has waited longest for a message of a pair; None if none."""

    def lost(self, pair: "Pair") -> None:
        """Fail the receives from any rank that can get no message any more."""


class Pair:
    """The messages between this rank and one other.

    The caller of a method holds the lock of all pairs, but for those that read.

    Parameters
    ----------
    peer
        The other rank.
    pairs
        All pairs of this rank.

    Attributes
    ----------
    outbox, inbox : Outbox, Inbox
        The messages of the two directions that are not done.
    channel : Channel or None
        Connects the two, from their first message on.
    has_left : bool
        Whether the other rank has closed its communicator.
    """

    def __init__(self, peer: int, pairs: Matching):
        self.peer = peer
        self.channel: Channel | None = None
        self.has_left = False
        self.outbox = Outbox(pairs.rank, peer)
        self.inbox = Inbox(pairs.rank, peer, self.error)
        self._me, self._pairs = pairs.rank, pairs
        self._failure: Failure | None = None
        self._reading = Lock()
        self._reader = 0  # the thread that holds it

    # ---- calls

    @property
    def waits(self) -> bool:
        """Whether a call waits for records of the other rank."""
        return self.outbox.waits or self.inbox.waits

    def connected(self, channel: Channel) -> None:
        """Use the channel from now on."""
        self.channel = channel
        self.inbox.connect(channel)
        self.outbox.connect(channel)

    def send(self, message: Message) -> None:
        """Begin to send a message."""
        error = self.outbox.pop_refusal(message.tag) or self.error(message.name)
        if error is not None:
            message.end(error)
        else:
            self.outbox.send(message)

    def post(self, message: Message) -> None:
        """Let a receive wait for its message."""
        if self._failure is not None:
            message.end(self._failure(message.name))
        else:
            self.inbox.posted.add(message.tag, message)

    def withdraw(self, message: Message) -> None:
        """Give up a message that still waits for the other rank."""
        follows = message.number > 0  # so that its elements are on their way
        is_sent = self.outbox.withdraw(message)
        if not is_sent and self.inbox.withdraw(message) and follows:
            self._abort(f"it gave up {message.name} after {message.timeout:g} s")

    # ---- reading

    def read(self) -> bool:
        """Read all records that have come: whether there were some."""
        if self.channel is None or not self._begin_reading():
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
            self._end_reading()
        return found

    def await_record(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the next record; False if another thread does."""
        if self.channel is None or not self._begin_reading():
            return False
        try:
            return self.channel.await_record(seconds)
        finally:
            self._end_reading()

    def _begin_reading(self) -> bool:
        """Whether no other thread reads.

        Raises
        ------
        CollalgoError
            If this thread does, and has been interrupted by a signal.
        """
        if self._reading.acquire(blocking=False):
            self._reader = get_ident()
            return True
        if self._reader == get_ident():
            raise in_signal_handler(self._me)
        return False

    def _end_reading(self) -> None:
        self._reader = 0
        self._reading.release()

    def _read_one(self, channel: Channel) -> None:
        record, behind = channel.read()
        elements = None
        if record.kind is Kind.EAGER:
            elements = _elements(channel, record, behind)
        elif record.kind is Kind.DATA:
            self._read_long(channel, record)
        with self._pairs.lock:
            self._handle(record, elements, behind)

    def _read_long(self, channel: Channel, record: Record) -> None:
        with self._pairs.lock:
            message = self.inbox.pop_cleared(record.number)
        if message is None:  # given up here, and the channel with it
            raise PeerFailed("the message was given up")
        if message.on_device:
            message.follow(channel.read_later(message.array))
            return
        try:
            channel.read_long(message.array)
        except CollalgoError:
            with self._pairs.lock:  # it fails with all others
                self.inbox.put_back(message)
            raise
        message.end()

    def _handle(
        self,
        record: Record,
        elements: NDArray[np.uint8] | None,
        behind: NDArray[np.uint8],
    ) -> None:
        """Do what a record is about; ``behind`` are the bytes behind it."""
        if record.kind in (Kind.EAGER, Kind.REQUEST):
            message = self._pairs.take_posted(self, record.tag)
            self.inbox.arrive(Arrival(record, elements), message)
        elif record.kind is Kind.CLEAR:
            self.outbox.clear(record)
        elif record.kind is Kind.REFUSAL:
            self.outbox.learn_refusal(record, behind)
        elif record.kind is Kind.WITHDRAWAL:
            self.inbox.learn_withdrawal(record)

    # ---- the end

    def error(self, call: str) -> BaseException | None:
        """The error of a call with the other rank, if all calls fail."""
        return self._failure(call) if self._failure is not None else None

    def cannot_connect(self, error: BaseException) -> None:
        """Fail the calls that wait for the channel."""
        self.outbox.cannot_connect(error)
        self.inbox.cannot_connect(error)

    def close(self) -> None:
        """Fail all calls, because this rank has closed the communicator."""
        self._fail(partial(errors.closed, rank=self._me))
        if self.channel is not None:
            self.channel.close()

    def _abort(self, reason: str) -> None:
        """Close the channel because of an error here."""
        if self.channel is not None:
            self.channel.abort(reason)
        self._fail(partial(errors.gone, rank=self._me, peer=self._me, why=reason))

    def _leave(self) -> None:
        """The other rank has closed its communicator."""
        with self._pairs.lock:
            self.has_left = True
            self._fail(partial(errors.gone, rank=self._me, peer=self.peer, why=CLOSED))
            self._pairs.lost(self)

    def _lose(self, channel: Channel, error: CollalgoError) -> None:
        """The channel has failed."""
        with self._pairs.lock:
            if isinstance(error, CommunicatorClosed):
                self.close()
            else:
                why = channel.exit_reason()
                self._fail(partial(errors.gone, rank=self._me, peer=self.peer, why=why))
            self._pairs.lost(self)

    def _fail(self, failure: Failure) -> None:
        """Fail all calls that wait for the other rank, and those to come."""
        self._failure = self._failure or failure
        for message in (*self.outbox.drop(), *self.inbox.drop()):
            message.end(self._failure(message.name))


def _elements(
    channel: Channel, record: Record, behind: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """The bytes of a short message, which are behind its record or follow it."""
    if record.nbytes <= len(behind):
        return np.array(behind[: record.nbytes])
    elements = np.empty(record.nbytes, np.uint8)
    channel.read_into(elements)
    return elements
