"""The connection of two ranks, made at their first message."""

import time
from collections.abc import Callable
from threading import TIMEOUT_MAX, Thread

from collalgo._kernels.comm.point_to_point.peer import Peer
from collalgo.base.threads import start
from collalgo.bootstrap.context import Rendezvous
from collalgo.bootstrap.liveness_check import ProcessGone
from collalgo.comm.point_to_point.channel import Channel
from collalgo.comm.point_to_point.errors import not_connected, peer_left
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
    peer
        The messages with the other rank, which use the channel.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        home: Home,
        peer: Peer,
    ):
        self._rendezvous, self._home = rendezvous, home
        self._me, self._peer = peer.me, peer.rank
        self._members = (min(peer.me, peer.rank), max(peer.me, peer.rank))
        self._connected, self._failed = peer.connected, peer.cannot_connect
        self._on_host = peer.on_host
        self._begun = False

    def start(self, call: str, timeout: float) -> None:
        """Connect in the background, unless that has begun.

        Where the engine between the hosts allows calls from one thread only, the caller
        connects.

        The calls that wait for the channel fail with CollectiveTimeout if the other
        rank does not connect in time, and with PeerFailed if it has left.
        """
        if self._begun:
            return
        self._begun = True
        home = self._home()
        if home is not None and home.context.one_thread and not self._on_host:
            self._try(call, timeout)
            return
        pair = Thread(target=self._try, args=(call, timeout), name="collalgo pair")
        pair.daemon = True
        start(pair)

    def _try(self, call: str, timeout: float) -> None:
        try:
            channel = self._connect(call, timeout)
        except BaseException as error:
            self._begun = False
            self._failed(error)
        else:
            self._connected(channel)

    def _connect(self, call: str, timeout: float) -> Channel:
        deadline = time.monotonic() + min(timeout, TIMEOUT_MAX / 2)
        try:
            return self._channel(deadline)
        except BootstrapError as error:
            if time.monotonic() >= deadline:
                raise not_connected(call, self._me, self._peer, timeout) from None
            if self._peer not in error.missing:
                raise
            why = error.why if isinstance(error, ProcessGone) else str(error)
            raise peer_left(call, self._me, self._peer, why) from None

    def _channel(self, deadline: float) -> Channel:
        place = self._members.index(self._me)
        lanes = [self._lane(sender, place, deadline) for sender in (0, 1)]
        return Channel(lanes[place], lanes[1 - place], place)

    def _lane(self, sender: int, place: int, deadline: float) -> Runner:
        """Connect to the other rank for the messages of one direction."""
        low, high = self._members
        name = f"pair {low}-{high} from {self._members[sender]}"
        left = deadline - time.monotonic()
        context = self._rendezvous.connect(name, place, self._members, left)
        context.pair = self._members
        home = self._home()
        if home is None:
            context.release()
            raise CommunicatorClosed(f"{name}: the communicator has ended")
        context.members_of_both = home.context.members
        return Runner(home.subgroup(context), home.timeout)
