"""The messages between this rank and one other with one tag.

The two ranks share two communicators, one for each direction, connected at the first
message. A message is a broadcast in one of them, so both ranks check its dtype and its
number of elements against each other.
"""

import time
from collections import deque
from collections.abc import Callable
from threading import TIMEOUT_MAX, Lock, RLock, Thread
from typing import TYPE_CHECKING, Any

from collalgo.bootstrap.context import Rendezvous
from collalgo.comm.functions.sharing import broadcast, broadcast_async
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.runner import Runner
from collalgo.engine.devices.arrays import for_another_thread
from collalgo.errors import (
    BootstrapError,
    CollectiveTimeout,
    CommunicatorClosed,
    PeerFailed,
)

if TYPE_CHECKING:
    from collalgo._kernels.comm.waiting import PeerState

#: Returns the runner of the communicator of the messages, or None after its end.
Home = Callable[[], Runner | None]


class Pair:
    """The messages between this rank and another with one tag.

    Parameters
    ----------
    rendezvous
        Connects the two ranks.
    home
        Returns the runner of the ranks' communicator, or None after its end.
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
        self._rendezvous, self._home = rendezvous, home
        self._me, self._tag = me, tag
        self._members = (min(me, peer), max(me, peer))
        self._place = int(me > peer)
        self._lanes: list[Runner] = []
        self._connect_lock = Lock()
        self._connecting = self._closed = False
        self._obstacle: BaseException | None = None  # of the last attempt to connect
        self._queue: deque[tuple[Message, int, Any]] = deque()
        self._queueing = RLock()  # a callback of a message may begin another

    def send(self, buf: Any, timeout: float) -> Any:
        lane = self._lane(self._place, "send", timeout)
        return broadcast(buf, lane, self._place, timeout=timeout)

    def recv(self, buf: Any, timeout: float) -> Any:
        other = 1 - self._place
        lane = self._lane(other, "recv", timeout)
        return broadcast(buf, lane, other, timeout=timeout)

    def isend(self, buf: Any, timeout: float) -> Message:
        message = Message("isend", buf, self._me)
        return self._later(message, self._place, buf, timeout)

    def irecv(self, buf: Any, timeout: float) -> Message:
        message = Message("irecv", buf, self.peer)
        return self._later(message, 1 - self._place, buf, timeout)

    def receive(self, message: Message, buf: Any) -> None:
        """Receive a message from any source by this connected pair."""
        message.source = self.peer
        with self._queueing:
            self._begin(message, 1 - self._place, buf)

    def peer_state(self) -> "PeerState":
        """The state of the other rank, as seen by this one.

        Raises
        ------
        CollalgoError
            If the two cannot connect.
        """
        if self._lanes:
            other = 1 - self._place
            return self._lanes[other].progress.peer_state(other)
        if self._obstacle is None or isinstance(self._obstacle, CollectiveTimeout):
            return "quiet"
        home = self._home()
        if home is not None and home.progress.peer_state(self.peer) == "left":
            return "left"
        raise self._obstacle

    def start_connecting(self, call: str, timeout: float) -> None:
        """Start to connect to the other rank in the background, unless started."""
        with self._queueing:
            if not self._lanes and not self._connecting:
                self._connecting, self._obstacle = True, None
                Thread(
                    target=self._connect_and_begin,
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
                self.start_connecting(message.name, timeout)
        return message

    def _begin(self, message: Message, lane: int, buf: Any) -> None:
        runner = self._lanes[lane]
        message.begin(lambda: broadcast_async(buf, runner, lane))

    def _begin_all(self) -> None:
        while self._queue:
            self._begin(*self._queue.popleft())

    def _connect_and_begin(self, call: str, timeout: float) -> None:
        """Connect, and start the queued messages."""
        try:
            self._lane(0, call, timeout)
        except BaseException as error:
            with self._queueing:
                self._obstacle, self._connecting = error, False
                failed, self._queue = self._queue, deque()
            for message, _, _ in failed:
                message.fail(error)

    def _lane(self, number: int, call: str, timeout: float) -> Runner:
        """The runner for the messages from one of the two, connected if needed."""
        if not self._lanes:
            self._connect(call, timeout)
        return self._lanes[number]

    def _connect(self, call: str, timeout: float) -> None:
        """Connect both directions; the first thread connects, others wait for it."""
        most = min(timeout, TIMEOUT_MAX / 2)
        deadline = time.monotonic() + most
        if not self._connect_lock.acquire(timeout=most):
            raise self._timed_out(call, timeout)
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
                raise self._timed_out(call, timeout) from None
            if self.peer not in error.missing:
                raise
            raise PeerFailed(
                f"{call}: {error}", rank=self._me, missing=(self.peer,)
            ) from None
        finally:
            self._connect_lock.release()

    def _timed_out(self, call: str, timeout: float) -> CollectiveTimeout:
        return CollectiveTimeout(
            f"{call}: rank {self._me} waited {timeout:g} s for rank {self.peer}, which "
            f"has neither sent to it nor received from it under tag {self._tag}; make "
            "the call there too, or pass a longer timeout here",
            rank=self._me,
            missing=(self.peer,),
        )

    def _world(self, sender: int, deadline: float) -> Runner:
        """Connect to the other rank for the messages that one of the two sends."""
        low, high = self._members
        name = f"pair {low}-{high} tag {self._tag} from {self._members[sender]}"
        left = deadline - time.monotonic()
        context = self._rendezvous.connect(name, self._place, self._members, left)
        context.pair = self._members
        home = self._home()
        if home is None:
            context.release()
            raise CommunicatorClosed(f"{name}: the communicator is gone")
        return Runner(home.subgroup(context), home.timeout)
