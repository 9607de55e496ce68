"""What goes between this rank and one other under one tag.

They share two small worlds, one for each direction, which come up when both have sent
or received for the first time. A message is a broadcast in one of them: it must be of
the same dtype and number of elements on both sides, and that is checked.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import TIMEOUT_MAX, Lock, RLock, Thread
from typing import TYPE_CHECKING, Any

from collalgo.bootstrap.context import Rendezvous
from collalgo.comm.point_to_point.message import Message
from collalgo.engine.devices.arrays import for_another_thread
from collalgo.errors import (
    BootstrapError,
    CollectiveTimeout,
    CommunicatorClosed,
    PeerFailed,
)

if TYPE_CHECKING:
    from collalgo._kernels.comm.queue import Outlook
    from collalgo.comm.communicator import Communicator

#: Gives the communicator whose ranks send the messages, unless it is gone.
Home = Callable[[], "Communicator | None"]


class Pair:
    """What goes between this rank and another under one tag.

    Parameters
    ----------
    rendezvous
        How the two worlds come up.
    home
        Gives the communicator that the two are ranks of, unless it is gone.
    me, peer
        The two ranks.
    tag
        The tag.

    Attributes
    ----------
    peer : int
        The other rank.
    """

    def __init__(
        self, rendezvous: Rendezvous, home: Home, me: int, peer: int, tag: int
    ):
        self.peer = peer
        self._origin, self._home = rendezvous, home
        self._me, self._tag = me, tag
        self._members = (min(me, peer), max(me, peer))
        self._place = int(me > peer)
        self._lanes: list[Communicator] = []
        self._meeting = Lock()
        self._coming_up = self._closed = False
        self._obstacle: BaseException | None = None  # when that was last tried
        self._queue: deque[tuple[Message, int, Any]] = deque()
        self._queueing = RLock()  # who is told of a message may begin another

    def send(self, buf: Any, timeout: float) -> Any:
        lane = self._lane(self._place, "send", timeout)
        return lane.broadcast(buf, self._place, timeout=timeout)

    def recv(self, buf: Any, timeout: float) -> Any:
        other = 1 - self._place
        return self._lane(other, "recv", timeout).broadcast(buf, other, timeout=timeout)

    def isend(self, buf: Any, timeout: float) -> Message:
        message = Message("isend", buf, self._me)
        return self._later(message, self._place, buf, timeout)

    def irecv(self, buf: Any, timeout: float) -> Message:
        message = Message("irecv", buf, self.peer)
        return self._later(message, 1 - self._place, buf, timeout)

    def receive(self, message: Message, buf: Any) -> None:
        """Let a message that anybody may send be one of this pair, which is up."""
        message.source = self.peer
        with self._queueing:
            self._begin(message, 1 - self._place, buf)

    def outlook(self) -> "Outlook":
        """What is to be expected of the other rank, beside what is being received.

        Raises
        ------
        CollalgoError
            If the two cannot come up, and why.
        """
        if self._lanes:
            other = 1 - self._place
            return self._lanes[other].progress.outlook(other)
        if self._obstacle is None or isinstance(self._obstacle, CollectiveTimeout):
            return "quiet"
        home = self._home()
        if home is not None and home.progress.outlook(self.peer) == "left":
            return "left"
        raise self._obstacle

    def come_up(self, call: str, timeout: float) -> None:
        """Meet the other rank in the background, if that has not begun."""
        with self._queueing:
            if not self._lanes and not self._coming_up:
                self._coming_up, self._obstacle = True, None
                Thread(
                    target=self._catch_up,
                    args=(call, timeout),
                    name="collalgo pair",
                    daemon=True,
                ).start()

    def close(self) -> None:
        with self._queueing:
            self._closed = True
        for lane in self._lanes:
            lane.close()

    def _later(self, message: Message, lane: int, buf: Any, timeout: float) -> Message:
        buf = for_another_thread(buf, message.name)
        with self._queueing:
            self._queue.append((message, lane, buf))
            if self._lanes:
                self._begin_all()
            else:
                self.come_up(message.name, timeout)
        return message

    def _begin(self, message: Message, lane: int, buf: Any) -> None:
        comm = self._lanes[lane]
        message.begin(lambda: comm.broadcast_async(buf, lane))

    def _begin_all(self) -> None:
        while self._queue:
            self._begin(*self._queue.popleft())

    def _catch_up(self, call: str, timeout: float) -> None:
        """Come up, and begin what has been waiting for that."""
        try:
            self._lane(0, call, timeout)
        except BaseException as error:
            with self._queueing:
                self._obstacle, self._coming_up = error, False
                failed, self._queue = self._queue, deque()
            for message, _, _ in failed:
                message.fail(error)

    def _lane(self, number: int, call: str, timeout: float) -> "Communicator":
        """The world of the messages from one of the two, which may have to come up."""
        if not self._lanes:
            self._meet(call, timeout)
        return self._lanes[number]

    def _meet(self, call: str, timeout: float) -> None:
        """Come up with both worlds, once, whichever thread is the first."""
        most = min(timeout, TIMEOUT_MAX / 2)
        deadline = time.monotonic() + most
        if not self._meeting.acquire(timeout=most):
            raise self._in_vain(call, timeout)
        try:
            if self._lanes:
                return
            lanes = [self._world(sender, deadline) for sender in (0, 1)]
            with self._queueing:
                self._lanes, self._obstacle = lanes, None
                if self._closed:
                    self.close()
                self._begin_all()
        except BootstrapError as error:
            if time.monotonic() >= deadline:
                raise self._in_vain(call, timeout) from None
            if self.peer not in error.missing:
                raise
            raise PeerFailed(
                f"{call}: {error}", rank=self._me, missing=(self.peer,)
            ) from None
        finally:
            self._meeting.release()

    def _in_vain(self, call: str, timeout: float) -> CollectiveTimeout:
        return CollectiveTimeout(
            f"{call}: rank {self._me} waited {timeout:g} s for rank {self.peer}, which "
            f"has neither sent to it nor received from it under tag {self._tag}; make "
            "the call there too, or pass a longer timeout here",
            rank=self._me,
            missing=(self.peer,),
        )

    def _world(self, sender: int, deadline: float) -> "Communicator":
        """Meet the other rank in the world of what one of the two sends."""
        low, high = self._members
        name = f"pair {low}-{high} tag {self._tag} from {self._members[sender]}"
        left = deadline - time.monotonic()
        connection = self._origin.connect(name, self._place, self._members, left)
        connection.pair = self._members
        home = self._home()
        if home is None:
            connection.release()
            raise CommunicatorClosed(f"{name}: the communicator is gone")
        return home.within(connection)
