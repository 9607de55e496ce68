"""Messages between two ranks, outside the calls that all ranks make.

Each pair of ranks, and each tag, has two small worlds of its own, one for each
direction. They come up when both ranks have sent or received for the first time. A
message is a broadcast in one of them: it must be of the same dtype and number of
elements on both sides, and that is checked.
"""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from collalgo._kernels.work import Work
from collalgo.connection import Connection, Origin
from collalgo.devices.arrays import for_another_thread
from collalgo.errors import CommunicatorClosed

if TYPE_CHECKING:
    from collalgo.communicator import Communicator

#: Gives what makes a communicator of an end of a world, unless that is gone.
Maker = Callable[[], Callable[[Connection], "Communicator"] | None]


class Message:
    """A message that is sent or received in the background, as a :class:`Work` is."""

    def __init__(self, name: str, buf: Any):
        self.name = name
        self._buf = buf
        self._begun: Future[Work] = Future()

    def begin(self, make: Callable[[], Work]) -> None:
        """Make the call now that it can be made."""
        try:
            self._begun.set_result(make())
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self._begun.set_exception(error)

    def done(self) -> bool:
        """Whether the message has come or gone, or failed."""
        if not self._begun.done():
            return False
        return self._begun.exception() is not None or self._begun.result().done()

    def wait(self, timeout: float | None = None) -> Any:
        """Wait until it is done: the array. See :meth:`Work.wait`."""
        self._begun.result(timeout).wait(timeout)
        return self._buf

    def wait_stream(self, stream: Any = None) -> Any:
        """Let a stream of a device wait until it is done; see the method of Work."""
        self._begun.result().wait_stream(stream)
        return self._buf

    def result(self, timeout: float | None = None) -> Any:
        """The same as :meth:`wait`."""
        return self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until it is done: what has been raised, or None."""
        failed = self._begun.exception(timeout)
        return failed or self._begun.result().exception(timeout)

    def add_done_callback(self, callback: Callable[["Message"], object]) -> None:
        """Let ``callback(message)`` be called when it is done, by any thread."""

        def begun(future: Future[Work]) -> None:
            if future.exception() is not None:
                callback(self)
            else:
                future.result().add_done_callback(lambda _: callback(self))

        self._begun.add_done_callback(begun)


class Pair:
    """What goes between this rank and another under one tag."""

    def __init__(self, origin: Origin, make: Maker, me: int, peer: int, tag: int):
        self._origin, self._make = origin, make
        self._members = (min(me, peer), max(me, peer))
        self._place = int(me > peer)
        self._tag = tag
        self._lanes: list[Communicator] = []
        self._meeting = Lock()
        self._queue: list[tuple[Message, int, Any]] | None = None

    def send(self, buf: Any, timeout: float | None) -> Any:
        return self._lane(self._place).broadcast(buf, self._place, timeout=timeout)

    def recv(self, buf: Any, timeout: float | None) -> Any:
        other = 1 - self._place
        return self._lane(other).broadcast(buf, other, timeout=timeout)

    def isend(self, buf: Any) -> Message:
        return self._later("isend", self._place, buf)

    def irecv(self, buf: Any) -> Message:
        return self._later("irecv", 1 - self._place, buf)

    def _later(self, name: str, lane: int, buf: Any) -> Message:
        message = Message(name, buf)
        buf = for_another_thread(buf, name)
        if self._lanes and not self._queue:
            self._begin(message, lane, buf)
        elif self._queue is not None:
            self._queue.append((message, lane, buf))
        else:
            self._queue = [(message, lane, buf)]
            Thread(target=self._catch_up, name="collalgo pair", daemon=True).start()
        return message

    def _begin(self, message: Message, lane: int, buf: Any) -> None:
        comm = self._lanes[lane]
        message.begin(lambda: comm.broadcast_async(buf, lane))

    def _catch_up(self) -> None:
        """Come up, and begin what has been waiting for that."""
        try:
            self._lane(0)
        except BaseException as error:
            while self._queue:
                self._queue.pop(0)[0].fail(error)
            self._queue = None

    def _lane(self, number: int) -> "Communicator":
        """The world of the messages from one of the two, which may have to come up."""
        with self._meeting:
            if not self._lanes:
                self._lanes = [self._meet(sender) for sender in (0, 1)]
            while self._queue:
                self._begin(*self._queue[0])
                self._queue.pop(0)
            self._queue = None
        return self._lanes[number]

    def _meet(self, sender: int) -> "Communicator":
        low, high = self._members
        name = f"pair {low}-{high} tag {self._tag} from {self._members[sender]}"
        connection = self._origin.meet(name, self._place, self._members)
        make = self._make()
        if make is None:
            connection.release()
            raise CommunicatorClosed(f"{name}: the communicator is gone")
        return make(connection)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


class Pairs:
    """All the pairs that a rank of a communicator is in.

    Parameters
    ----------
    origin
        How worlds of some of the ranks come up.
    make
        Gives what makes a communicator of an end of a world, weakly.
    rank, size
        Of this rank in the communicator.
    """

    def __init__(self, origin: Origin, make: Maker, rank: int, size: int):
        self._origin, self._make = origin, make
        self._rank, self._size = rank, size
        self._pairs: dict[tuple[int, int], Pair] = {}
        self._lock = Lock()

    def at(self, peer: int, tag: int, call: str) -> Pair:
        """The pair with another rank, under a tag."""
        if not 0 <= peer < self._size or peer == self._rank:
            raise ValueError(
                f"{call}: rank {peer} must be another rank of this communicator, which "
                f"has {self._size}; this is rank {self._rank}"
            )
        with self._lock:
            if (peer, tag) not in self._pairs:
                pair = Pair(self._origin, self._make, self._rank, peer, tag)
                self._pairs[peer, tag] = pair
            return self._pairs[peer, tag]

    def close(self) -> None:
        while self._pairs:
            self._pairs.popitem()[1].close()
