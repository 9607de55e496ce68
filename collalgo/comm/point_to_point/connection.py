"""How two ranks connect, at their first message."""

import time
from collections.abc import Callable
from threading import TIMEOUT_MAX, Lock, Thread

from collalgo.bootstrap.context import Rendezvous
from collalgo.comm.point_to_point.channel import Channel
from collalgo.comm.point_to_point.errors import gone, not_met
from collalgo.comm.runner import Runner
from collalgo.errors import BootstrapError, CommunicatorClosed

#: Returns the runner of the communicator of the messages, or None after its end.
Home = Callable[[], Runner | None]


class Connection:
    """Connects this rank with another.

    Parameters
    ----------
    rendezvous
        Connects the two ranks.
    home
        Returns the runner of the ranks' communicator, or None after its end.
    me, peer
        The two ranks.
    connected
        Called once with the channel.
    failed
        Called with the error of an attempt in the background.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        home: Home,
        me: int,
        peer: int,
        connected: Callable[[Channel], None],
        failed: Callable[[BaseException], None],
    ):
        self._rendezvous, self._home = rendezvous, home
        self._me, self._peer = me, peer
        self._members = (min(me, peer), max(me, peer))
        self._connected, self._failed = connected, failed
        self._attempt = Lock()
        self._in_background = False
        self._has_met = self._done = False

    def connect(self, call: str, timeout: float) -> None:
        """Connect, unless done; the first thread does, others wait for it.

        Raises
        ------
        CollectiveTimeout
            If the other rank does not connect in time.
        PeerFailed
            If it is gone.
        """
        if self._done:
            return
        most = min(timeout, TIMEOUT_MAX / 2)
        deadline = time.monotonic() + most
        if not self._attempt.acquire(timeout=most) and not self._await_own_part():
            raise not_met(call, self._me, self._peer, timeout)
        try:
            if not self._done:
                channel = self._channel(deadline)
                self._has_met = True
                self._connected(channel)
                self._done = True
        except BootstrapError as error:
            if time.monotonic() >= deadline:
                raise not_met(call, self._me, self._peer, timeout) from None
            if self._peer not in error.missing:
                raise
            raise gone(call, self._me, self._peer, str(error)) from None
        finally:
            self._attempt.release()

    def _await_own_part(self) -> bool:
        """Whether only this rank's part is left to do; wait for its end."""
        return self._has_met and self._attempt.acquire()

    def start(self, call: str, timeout: float) -> None:
        """Connect in the background, unless that has begun."""
        if self._done or self._in_background:
            return
        self._in_background = True
        Thread(
            target=self._try, args=(call, timeout), name="collalgo pair", daemon=True
        ).start()

    def _try(self, call: str, timeout: float) -> None:
        try:
            self.connect(call, timeout)
        except BaseException as error:
            self._in_background = False
            self._failed(error)

    def _channel(self, deadline: float) -> Channel:
        place = self._members.index(self._me)
        lanes = [self._lane(sender, place, deadline) for sender in (0, 1)]
        return Channel(lanes[place], lanes[1 - place], place)

    def _lane(self, sender: int, place: int, deadline: float) -> Runner:
        """Connect to the other rank for what one of the two sends."""
        low, high = self._members
        name = f"pair {low}-{high} from {self._members[sender]}"
        left = deadline - time.monotonic()
        context = self._rendezvous.connect(name, place, self._members, left)
        context.pair = self._members
        home = self._home()
        if home is None:
            context.release()
            raise CommunicatorClosed(f"{name}: the communicator is gone")
        return Runner(home.subgroup(context), home.timeout)
