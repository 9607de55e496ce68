"""Messages that are matched by communicator, source and tag, as MPI does.

The library matches messages by their exact tag and length. So each message of MPI is a
record of one length under one tag, for which a receive is always posted; a long message
is announced by a record and follows under a tag of its own. Records are matched here.
"""

import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable
from itertools import count
from threading import RLock
from typing import Any, NamedTuple, TypeVar

import numpy as np

from collalgo.errors import CollalgoError, CollectiveTimeout
from collalgo.integrations.as_mpi4py.constants import ANY_SOURCE, ANY_TAG
from collalgo.integrations.as_mpi4py.errors import as_mpi_exception
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.operations import Receive, Send

#: The head of a record: its kind, whether the sender waits for the match, the rank and
#: the tag of the sender, the communicator, the bytes of the message, and its number.
HEAD = struct.Struct("=BBxxiqQqq")
RECORD_BYTES = 512
ROOM = RECORD_BYTES - HEAD.size

#: The kinds of records: a message, the announcement of one, and that one was matched.
WHOLE, ANNOUNCED, MATCHED = range(3)

Item = TypeVar("Item")

#: Seconds until a wait looks again at what other threads have done.
SLICE = 2e-3


class Arrival(NamedTuple):
    """A message that has come, or that was announced."""

    sender: int
    source: int
    tag: int
    nbytes: int
    number: int
    is_awaited: bool
    data: Bytes | None

    def fits(self, source: int, tag: int) -> bool:
        """Whether a receive from a source with a tag takes it."""
        return source in (ANY_SOURCE, self.source) and tag in (ANY_TAG, self.tag)


class Matching:
    """The messages of this process.

    Parameters
    ----------
    world
        The communicator of all ranks, which carries the records.
    """

    def __init__(self, world: Any):
        self._world, self._me = world, world.rank
        self._lock = RLock()
        self._unexpected: dict[int, list[Arrival]] = defaultdict(list)
        self._posted: dict[int, list[Receive]] = defaultdict(list)
        self._awaiting: dict[int, Send] = {}
        self._numbers = count(1)
        self._record = np.empty(RECORD_BYTES, np.uint8)
        self._records: deque[Any] = deque()
        self._draining = False
        self._next: Any = None
        self._failure: BaseException | None = None

    # ---- sending

    def send(
        self,
        context: int,
        source: int,
        to: int,
        tag: int,
        data: Bytes,
        *,
        until_matched: bool = False,
    ) -> Send:
        """Send a message; ``to`` is a rank of the world, ``source`` one of the context.

        With ``until_matched`` it is done only when a receive has taken it.
        """
        self._start()
        number, nbytes = next(self._numbers), len(data)
        operation = Send(self, is_awaited=until_matched)
        if until_matched:
            self._awaiting[number] = operation
        if to == self._me:
            head = source, tag, nbytes, number, until_matched
            self._arrive(context, Arrival(to, *head, data.copy()))
            return operation
        kind = WHOLE if nbytes <= ROOM else ANNOUNCED
        record = bytearray(RECORD_BYTES)
        HEAD.pack_into(
            record, 0, kind, until_matched, source, tag, context, nbytes, number
        )
        if kind == WHOLE:
            record[HEAD.size : HEAD.size + nbytes] = data.data
        self._world.isend(record, to, 0)
        if kind == ANNOUNCED:
            operation.message = self._world.isend(data, to, number)
        return operation

    def _acknowledge(self, arrival: Arrival) -> None:
        """Report to a sender that its message was matched."""
        if arrival.sender == self._me:
            self._awaiting.pop(arrival.number).is_awaited = False
            return
        record = bytearray(RECORD_BYTES)
        HEAD.pack_into(record, 0, MATCHED, 0, 0, 0, 0, 0, arrival.number)
        self._world.isend(record, arrival.sender, 0)

    # ---- receiving

    def receive(self, receive: Receive) -> None:
        """Receive the first message that fits, now or later."""
        self._start()
        with self._lock:
            arrival = self._take(receive.context, receive.source, receive.tag)
            if arrival is None:
                self._posted[receive.context].append(receive)
        if arrival is not None:
            self.deliver(receive, arrival)

    def _take(self, context: int, source: int, tag: int) -> Arrival | None:
        """Remove the first message that has come and fits."""
        waiting = self._unexpected.get(context, [])
        for place, arrival in enumerate(waiting):
            if arrival.fits(source, tag):
                return _removed(self._unexpected, context, place)
        return None

    def withdraw(self, receive: Receive) -> bool:
        """Give up a receive: whether no message had been matched."""
        with self._lock:
            posted = self._posted.get(receive.context, [])
            found = receive in posted
            if found:
                _removed(self._posted, receive.context, posted.index(receive))
        return found

    def probe(
        self, context: int, source: int, tag: int, *, take: bool = False
    ) -> Arrival | None:
        """The first message that has come and fits; with ``take`` it is removed."""
        self._start()
        self.poll()
        with self._lock:
            if take:
                return self._take(context, source, tag)
            waiting = self._unexpected.get(context, ())
            return next((a for a in waiting if a.fits(source, tag)), None)

    def deliver(self, receive: Receive, arrival: Arrival) -> None:
        """Give a message to a receive."""
        if arrival.is_awaited:
            self._acknowledge(arrival)
        receive.match(arrival.source, arrival.tag, arrival.nbytes)
        if arrival.data is not None:
            receive.take(arrival.data)
            return
        room = receive.room(arrival.nbytes)
        receive.message = self._world.irecv(room, arrival.sender, arrival.number)
        receive.message.add_done_callback(receive.arrived)

    # ---- records

    def _start(self) -> None:
        """Post the receive of the first record."""
        if self._next is None and self._world.size > 1:
            with self._lock:
                if self._next is None:
                    self._post()

    def _post(self) -> None:
        self._next = message = self._world.irecv(self._record, None, 0)
        message.add_done_callback(self._take_record)

    def _take_record(self, message: Any) -> None:
        """Handle records in their order, by one thread at a time."""
        with self._lock:
            self._records.append(message)
            if self._draining:
                return
            self._draining = True
        try:
            while message := self._next_record():
                self._handle(message)
        except BaseException:  # such as an interrupt: the next record goes on
            self._draining = False
            raise

    def _next_record(self) -> Any:
        """The next record to handle; None after the last one."""
        with self._lock:
            self._draining = bool(self._records)
            return self._records.popleft() if self._draining else None

    def _handle(self, message: Any) -> None:
        error = message.exception(0)
        if error is not None and not isinstance(error, CollectiveTimeout):
            self._failure = error
            return
        try:
            if error is None:
                self._read(message.source)
        finally:
            self._post()

    def _read(self, sender: int) -> None:
        """Read the record that has come."""
        values = HEAD.unpack_from(self._record.data)
        kind, is_awaited, source, tag, context, nbytes, number = values
        if kind == MATCHED:
            self._awaiting.pop(number).is_awaited = False
            return
        data = None
        if kind == WHOLE:
            data = self._record[HEAD.size : HEAD.size + nbytes]
        head = source, tag, nbytes, number, bool(is_awaited)
        self._arrive(context, Arrival(sender, *head, data))

    def _arrive(self, context: int, arrival: Arrival) -> None:
        """Give a message to the first receive that fits, or keep it."""
        with self._lock:
            for place, receive in enumerate(self._posted.get(context, [])):
                if arrival.fits(receive.source, receive.tag):
                    _removed(self._posted, context, place)
                    break
            else:
                if arrival.data is not None:  # which belongs to the record
                    arrival = arrival._replace(data=arrival.data.copy())
                self._unexpected[context].append(arrival)
                return
        self.deliver(receive, arrival)

    # ---- waiting

    def poll(self) -> None:
        """Look for records without a wait."""
        if self._next is not None:
            self._next.done()

    @property
    def next_record(self) -> Any:
        """The record that is awaited.

        A wait reads it before the check whether it is over: another thread may handle
        the record in between, and the next one may never come.
        """
        return self._next

    def pause(self, awaited: Any) -> None:
        """Wait for a moment until a message, or a record, has come."""
        if awaited is None or awaited.done():
            time.sleep(0)
            return
        try:
            awaited.wait(SLICE)
        except (TimeoutError, CollalgoError):
            return

    def wait(self, is_over: Callable[[], bool], message: Any = None) -> None:
        """Wait until something is over, or the messages have failed."""
        record = self.next_record
        while not is_over():
            self.check()
            self.pause(record if message is None else message)
            record = self.next_record

    def check(self) -> None:
        """Raise the error with which the messages have failed, if they have."""
        if self._failure is not None:
            raise as_mpi_exception(self._failure)


def _removed(table: dict[int, list[Item]], context: int, place: int) -> Item:
    """Remove an item of a communicator, which takes no memory without items."""
    found = table[context].pop(place)
    if not table[context]:
        del table[context]
    return found
