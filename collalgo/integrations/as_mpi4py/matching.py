"""Messages that are matched by communicator, source and tag, as MPI does.

The library matches messages by their exact tag and length. So a message of MPI is a
record, which its receiver takes without a call for it; a long message is announced by a
record and follows under a tag of its own. Records are matched here, by the thread that
waits; while none waits, by a thread in the background.
"""

import time
from collections import deque
from itertools import count
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo._kernels.comm.point_to_point.probing import joined
from collalgo.comm.point_to_point.calls import mailbox_of
from collalgo.errors import CollalgoError
from collalgo.integrations.as_mpi4py.errors import as_mpi_exception
from collalgo.integrations.as_mpi4py.finalized import FinalizedRanks
from collalgo.integrations.as_mpi4py.message_operations import (
    SENT,
    OfMessages,
    Receive,
    Send,
)
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.records import (
    ANNOUNCED,
    HEAD,
    MATCHED,
    WHOLE,
    Arrival,
    removed,
)
from collalgo.integrations.as_mpi4py.serving import Serving

#: The tag of records; the other tags are the numbers of long messages.
RECORDS = 0

#: Seconds until a wait looks again at what other threads have done, and the number of
#: such waits after which it looks for ranks that have ended.
SLICE, SLICES = 2e-3, 10


class Matching:
    """The messages of this process.

    Parameters
    ----------
    world
        The communicator of all ranks, which carries the records.
    """

    def __init__(self, world: Any):
        self._world, self._me = world, world.rank
        self._mailbox = mailbox_of(world)
        self._serving = Serving(self)
        self._lock = RLock()
        self._unexpected: dict[int, list[Arrival]] = {}
        self._posted: dict[int, list[Receive]] = {}
        self._awaiting: dict[int, Send] = {}
        self._numbers = count(1)
        self._records: deque[tuple[int, bytes]] = deque()
        self._room: dict[int, int] = {}
        self._pauses = 0
        self.finalized = FinalizedRanks(world)

    # ---- sending

    def send(
        self,
        context: int,
        source: int,
        to: int,
        tag: int,
        data: NDArray[Any],
        *,
        until_matched: bool = False,
    ) -> Operation:
        """Send a message; ``to`` is a rank of the world, ``source`` one of the context.

        With ``until_matched`` it is done only when a receive has taken it.
        """
        self._serving.count_call()
        number, nbytes = next(self._numbers), data.nbytes
        operation = self._begin(number, to, is_awaited=until_matched)
        if to == self._me:
            head = source, tag, nbytes, number, until_matched
            self._arrive(context, Arrival(to, *head, data.tobytes()))
            return operation
        is_whole = nbytes <= self._room_of(to)
        kind = WHOLE if is_whole else ANNOUNCED
        record = HEAD.pack(kind, until_matched, source, tag, context, nbytes, number)
        if is_whole:
            message = self._put(to, joined(record, data))
        else:
            message = self._put_long(to, record, data, number)
        if message is not None:
            operation = Send(self, to) if operation is SENT else operation
            operation.message = message
        return operation

    def _begin(self, number: int, to: int, *, is_awaited: bool) -> Operation:
        if not is_awaited:
            return SENT
        with self._lock:
            operation = self._awaiting[number] = Send(self, to, is_awaited=True)
        return operation

    def _put_long(
        self, to: int, record: bytes, data: NDArray[Any], number: int
    ) -> Message:
        """Announce a long message, and begin to send it."""
        self._put(to, record)
        array = data.reshape(-1).view(np.uint8)
        return self._mailbox.start_send(array, to, number)

    def _room_of(self, to: int) -> int:
        """The most bytes of a message in its record."""
        found = self._room.get(to)
        if found is None:
            found = self._room[to] = self._mailbox.record_bytes(to) - HEAD.size
        return found

    def _put(self, to: int, record: bytes) -> Message | None:
        return self._mailbox.put_record(record, to, RECORDS)

    def _acknowledge(self, arrival: Arrival) -> None:
        """Report to a sender that its message was matched."""
        if arrival.sender == self._me:
            self._end_awaited(arrival.number)
        else:
            record = HEAD.pack(MATCHED, 0, 0, 0, 0, 0, arrival.number)
            self._put(arrival.sender, record)

    def _end_awaited(self, number: int) -> None:
        """Record that a message was matched."""
        operation = self._awaiting.pop(number, None)
        if operation is not None:
            operation.is_awaited = False

    # ---- receiving

    def receive(self, receive: Receive) -> None:
        """Receive the first message that fits, now or later."""
        self._serving.count_call()
        context = receive.context
        with self._lock:
            arrival = None
            if context in self._unexpected:
                arrival = self._take(context, receive.source, receive.tag)
            if arrival is None:
                self._posted.setdefault(context, []).append(receive)
            else:
                self.deliver(receive, arrival)

    def _take(self, context: int, source: int, tag: int) -> Arrival | None:
        """Remove the first message that has come and fits."""
        for place, arrival in enumerate(self._unexpected.get(context, ())):
            if arrival.fits(source, tag):
                return removed(self._unexpected, context, place)
        return None

    def withdraw(self, receive: Receive) -> bool:
        """Give up a receive: whether no message had been matched."""
        with self._lock:
            posted = self._posted.get(receive.context, [])
            found = receive in posted
            if found:
                removed(self._posted, receive.context, posted.index(receive))
        return found

    def probe(
        self, context: int, source: int, tag: int, *, take: bool = False
    ) -> Arrival | None:
        """The first message that has come and fits; with ``take`` it is removed."""
        self._serving.count_call()
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
        receive.envelope = arrival.source, arrival.tag, arrival.nbytes
        if arrival.data is not None:
            receive.take(arrival.data)
            return
        room, number = receive.room(arrival.nbytes), arrival.number
        receive.message = self._mailbox.start_receive(room, arrival.sender, number)

    # ---- records

    def listen(self) -> None:
        """Let all ranks send to this one."""
        self._mailbox.listen()

    def poll(self) -> None:
        """Handle the records that have come, in their order."""
        try:
            with self._lock:
                if found := self._mailbox.take_records(RECORDS):
                    self._records += found
                while self._records:
                    self._read(*self._records.popleft())
        except CollalgoError as error:
            raise as_mpi_exception(error) from error

    def _read(self, sender: int, record: bytes) -> None:
        """Read a record that has come."""
        head = HEAD.unpack_from(record)
        kind, is_awaited, source, tag, context, nbytes, number = head
        if kind == MATCHED:
            self._end_awaited(number)
            return
        data = record[HEAD.size :] if kind == WHOLE else None
        self._arrive(
            context, Arrival(sender, source, tag, nbytes, number, is_awaited, data)
        )

    def _arrive(self, context: int, arrival: Arrival) -> None:
        """Give a message to the first receive that fits, or keep it."""
        with self._lock:
            for place, receive in enumerate(self._posted.get(context, ())):
                if arrival.fits(receive.source, receive.tag):
                    removed(self._posted, context, place)
                    self.deliver(receive, arrival)
                    return
            self._unexpected.setdefault(context, []).append(arrival)

    # ---- waiting

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for another rank."""
        return bool(self._posted or self._awaiting or self._mailbox.is_waiting())

    def wait(self, operation: OfMessages) -> None:
        """Wait until an operation has completed.

        Raises
        ------
        MPI.Exception
            If the timeout of the world passes.
        """
        begun = 0.0
        while not operation.is_over():
            if not begun:
                begun = time.monotonic()
            elif operation.is_late(begun):
                operation.cancel()
                operation.give_up()
            self.pause(operation.message, operation)

    @property
    def timeout(self) -> float:
        """The timeout of the world in seconds."""
        return float(self._world.timeout)

    def pause(self, message: Any = None, *operations: Operation) -> bool:
        """Wait a moment for a record or a message, and return whether one came.

        At intervals end operations whose peers have ended, if none can end otherwise.
        """
        self._serving.count_call()
        try:
            found = self._mailbox.await_record(RECORDS, message, SLICE)
        except CollalgoError as error:
            raise as_mpi_exception(error) from error
        self._pauses = 0 if found else self._pauses + 1
        if self._pauses == SLICES:
            self._pauses = 0
            self.end_lost(*operations)
            self.finalized.end(operations)
        return found

    def end_lost(self, *operations: Operation) -> None:
        """End the messages and waits whose peers have ended."""
        lost = self._mailbox.lost("a message")
        if not lost:
            return
        self.poll()  # for those that they had sent
        with self._lock:
            posted = [each for waiting in self._posted.values() for each in waiting]
            for operation in (*operations, *posted, *self._awaiting.values()):
                found = [lost[rank] for rank in operation.others if rank in lost]
                if found:
                    operation.lose(as_mpi_exception(found[0]))
            waiting = self._awaiting.items()
            self._awaiting = {key: send for key, send in waiting if send.is_awaited}
