"""The messages of a rank of a communicator: its calls, and how receives find them."""

import time
from itertools import count
from typing import Any

from collalgo.bootstrap.context import Rendezvous
from collalgo.comm.point_to_point import errors
from collalgo.comm.point_to_point.by_tag import ByTag
from collalgo.comm.point_to_point.channel import Channel
from collalgo.comm.point_to_point.connection import Connection, Home
from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.pair import Pair
from collalgo.comm.point_to_point.progress import LOOKS, MessageProgress, pauses
from collalgo.errors import CollectiveTimeout

#: Seconds in which a rank that closes waits for others to read what it has sent.
LAST_SECONDS = 5.0


class Pairs(MessageProgress):
    """All messages of a rank of a communicator.

    Parameters
    ----------
    rendezvous
        Connects subsets of the ranks.
    home
        Returns the runner of the communicator, or None after its end.
    rank, size
        Of this rank in the communicator.
    """

    def __init__(self, rendezvous: Rendezvous, home: Home, rank: int, size: int):
        super().__init__()
        self.rank, self.size = rank, size
        self._rendezvous, self._home = rendezvous, home
        self._pairs: dict[int, tuple[Pair, Connection]] = {}
        self._from_any: ByTag[Message] = ByTag()
        self._next_source = 0  # the first rank that a receive from any looks at
        self._tickets = count()  # of receives, in the order of the calls

    # ---- calls

    def send(self, buf: Any, to: int, tag: int, timeout: float) -> Any:
        """Send a message, and wait until its array may be changed."""
        message = Message("send", buf, tag, self.rank, timeout, self)
        pair, connection = self._pair(to)
        if pair.channel is not None:
            self._await_room(pair, message)
        with self.lock:
            pair.send(message)
        if message.waits or self._has_one_thread():
            self._connect(connection, message)
        else:
            connection.start(message.name, self._timeout())
        return self._finish(message)

    def isend(self, buf: Any, to: int, tag: int, timeout: float) -> Message:
        """Send a message in the background."""
        self._check_background("isend")
        message = Message("isend", buf, tag, self.rank, timeout, self)
        pair, connection = self._pair(to)
        pair.read()
        with self.lock:
            pair.send(message)
        connection.start(message.name, timeout)
        return self.in_background(message)

    def recv(self, buf: Any, source: int | None, tag: int, timeout: float) -> Any:
        """Receive a message; without a source from the first sender."""
        if source is None:  # which connects with all ranks in the background
            self._check_background("recv")
        message = Message("recv", buf, tag, source, timeout, self)
        connections = self._post(message)
        for connection in connections:
            if source is None:
                connection.start(message.name, timeout)
            else:
                self._connect(connection, message)
        return self._finish(message)

    def irecv(self, buf: Any, source: int | None, tag: int, timeout: float) -> Message:
        """Receive a message in the background."""
        self._check_background("irecv")
        message = Message("irecv", buf, tag, source, timeout, self)
        for connection in self._post(message):
            connection.start(message.name, timeout)
        return self.in_background(message)

    def close(self) -> None:
        """Fail all messages that are not done, and release all channels."""
        self._send_rest()
        with self.lock:
            super().close()
            for message in self._from_any:
                message.end(errors.closed(message.name, self.rank))
            self._from_any.clear()
            for pair, _ in self._pairs.values():
                pair.close()
        self.call_back()

    def _has_one_thread(self) -> bool:
        """Whether the engine between the hosts allows calls from one thread only."""
        home = self._home()
        return home is not None and home.context.one_thread

    def _check_background(self, call: str) -> None:
        """Check that messages can move in the background."""
        home = self._home()
        if home is not None:
            home.check_background(call)

    def _timeout(self) -> float:
        """The timeout of the communicator in seconds."""
        home = self._home()
        return 0.0 if home is None else home.timeout

    def _send_rest(self) -> None:
        """Wait until other ranks have read what is done for its callers."""
        home = self._home()
        if home is None or not home.is_open:
            return
        most = min(self._timeout(), LAST_SECONDS)
        turns, deadline = pauses(), time.monotonic() + most
        while time.monotonic() < deadline:
            with self.lock:
                pairs = [pair for pair, _ in self._pairs.values()]
            if not any(pair.outbox.is_unread for pair in pairs):
                return
            for pair in pairs:  # as others may wait for this rank in the same way
                pair.read()
            time.sleep(next(turns))

    # ---- matching

    def _pair(self, peer: int) -> tuple[Pair, Connection]:
        """The messages with another rank, and what connects the two."""
        with self.lock:
            if peer not in self._pairs:
                pair = Pair(peer, self)
                self._pairs[peer] = (
                    pair,
                    Connection(
                        self._rendezvous,
                        self._home,
                        self.rank,
                        peer,
                        lambda channel: self._connected(pair, channel),
                        lambda error: self._not_connected(pair, error),
                    ),
                )
            return self._pairs[peer]

    def _connected(self, pair: Pair, channel: Channel) -> None:
        with self.lock:
            pair.connected(channel)
            if self.closed:
                pair.close()

    def _not_connected(self, pair: Pair, error: BaseException) -> None:
        """An attempt in the background to connect has failed."""
        home = self._home()
        with self.lock:
            pair.cannot_connect(error)
            if home is not None and home.progress.peer_state(pair.peer) == "left":
                pair.has_left = True
            if pair.has_left or not isinstance(error, CollectiveTimeout):
                self.lost(pair, error)
        self.call_back()

    def _sources(self, message: Message) -> list[int]:
        """The ranks that a message may come from, in the order of the next look."""
        if message.source is not None:
            return [message.source]
        ranks = [*range(self._next_source, self.size), *range(self._next_source)]
        return [rank for rank in ranks if rank != self.rank]

    def _post(self, message: Message) -> list[Connection]:
        """Take a message that has come, or wait for it on these connections."""
        message.check_target()
        from_any = message.source is None
        found = [self._pair(source) for source in self._sources(message)]
        for pair, _ in found:
            pair.read()
        with self.lock:
            message.ticket = next(self._tickets)
            for pair, _ in found:
                if pair.inbox.receive(message):
                    self._next_source = pair.peer + 1
                    return []
            if not from_any:
                found[0][0].post(message)
            elif not self._fail_from_any(message):
                self._from_any.add(message.tag, message)
        return [connection for _, connection in found]

    def take_posted(self, pair: Pair, tag: int) -> Message | None:
        """The receive that has waited longest for a message of a pair; None if none."""
        own, other = pair.inbox.posted.first(tag), self._from_any.first(tag)
        if own is None or (other is not None and other.ticket < own.ticket):
            if other is not None:
                self._from_any.remove(tag, other)
                self._next_source = pair.peer + 1
            return other
        pair.inbox.posted.remove(tag, own)
        return own

    def lost(self, pair: Pair, error: BaseException | None = None) -> None:
        """Fail the receives from any rank that can get no message any more."""
        for message in self._from_any:
            failed = error if error is not None and not pair.has_left else None
            if failed is not None:
                message.end(failed)
            if failed is not None or self._fail_from_any(message):
                self._from_any.remove(message.tag, message)

    def _fail_from_any(self, message: Message) -> bool:
        """Fail a receive from any rank, if a rank has failed or all have left."""
        known = [pair for pair, _ in self._pairs.values()]
        if sum(pair.has_left for pair in known) == self.size - 1:
            others = tuple(sorted(pair.peer for pair in known))
            message.end(errors.all_gone(message, self.rank, others))
            return True
        for pair in known:
            error = None if pair.has_left else pair.error(message.name)
            if error is not None:
                message.end(error)
                return True
        return False

    # ---- waiting

    def waiting_pairs(self) -> list[Pair]:
        """The pairs of which a record is waited for; the caller holds the lock."""
        return [
            pair for pair, _ in self._pairs.values() if pair.waits or self._from_any
        ]

    def _await_room(self, pair: Pair, message: Message) -> None:
        """Wait a moment for room for a short message, and read what has come."""
        for _ in range(LOOKS):
            pair.read()
            if pair.outbox.has_room_for(message):
                return
            time.sleep(0)

    def _connect(self, connection: Connection, message: Message) -> None:
        try:
            connection.connect(message.name, message.timeout)
        except BaseException:
            self.withdraw(message)
            raise
        message.deadline = time.monotonic() + message.timeout

    def _finish(self, message: Message) -> Any:
        """Wait for a message in the foreground; give it up when interrupted."""
        try:
            self.wait(message, None)
        except BaseException:
            self.withdraw(message)
            raise
        finally:
            self.call_back()
        return message.wait()

    def withdraw(self, message: Message) -> None:
        """Give up a message."""
        with self.lock:
            if self._from_any.remove(message.tag, message):
                others = tuple(rank for rank in range(self.size) if rank != self.rank)
                message.end(errors.nothing_came(message, self.rank, others))
            for pair, _ in self._pairs.values():
                pair.withdraw(message)
        self.call_back()
