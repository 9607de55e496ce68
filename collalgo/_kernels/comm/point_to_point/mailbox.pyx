# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a rank of a communicator: its calls, and how receives find them."""

from libc.stdint cimport int64_t

import math
from functools import partial
from time import monotonic, sleep

from collalgo._kernels.comm.point_to_point.inbox cimport Arrival, Inbox
from collalgo._kernels.comm.point_to_point.message cimport (
    Message,
    new_message,
    time_after,
)
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.progress cimport Progress
from collalgo._kernels.comm.recorder cimport nanoseconds
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport wake_waiters
from collalgo._kernels.engine.transport.segment cimport RANK_CLOSED, RANK_FAILED

from collalgo.base.integers import INT64_MAX, integer
from collalgo.comm.point_to_point import errors
from collalgo.engine.reduction import DTYPES

#: Seconds in which a rank that closes waits for others to read what it has sent.
LAST_SECONDS = 5.0


cdef class Mailbox(Progress):
    """All messages of a rank of a communicator; see :class:`Progress`.

    Parameters
    ----------
    rank, size, shared
        As of :class:`Progress`.
    home : callable
        Returns the runner of the communicator, or None after its end.
    connection : callable
        Makes the :class:`Connection` to a rank, for a :class:`Peer`.
    """

    def __init__(
        self, int64_t rank, int64_t size, HostEndpoint shared, home, connection
    ):
        super().__init__(rank, size, shared)
        self.home, self.connection = home, connection

    # ---- calls

    def send(self, buf, to, tag, double seconds):
        """Send a message, and wait until its array may be changed."""
        return self.finish(self.begin_send("send", buf, to, tag, seconds))

    def isend(self, buf, to, tag, double seconds):
        """Send a message in the background."""
        self.check_background("isend")
        return self.in_background(self.begin_send("isend", buf, to, tag, seconds))

    def recv(self, buf, source, tag, double seconds):
        """Receive a message; without a source from the first sender."""
        if source is None:  # which connects with all ranks in the background
            self.check_background("recv")
        return self.finish(self.begin_receive("recv", buf, source, tag, seconds))

    def irecv(self, buf, source, tag, double seconds):
        """Receive a message in the background."""
        self.check_background("irecv")
        return self.in_background(
            self.begin_receive("irecv", buf, source, tag, seconds)
        )

    cdef Message begin_send(self, str name, buf, to, tag, double seconds):
        cdef Peer peer
        cdef Message message
        self.check_open(name)
        cdef int64_t rank = self.checked(to, "to", name, self.size - 1)
        message = new_message(
            name, buf, self.checked(tag, "tag", name, INT64_MAX), self.rank, seconds, self
        )
        if message.on_device and rank == self.rank:
            raise ValueError(
                f"{name}: rank {rank} cannot send an array on a device to itself; copy it"
            )
        self.acquire()
        try:
            self.check_open(name)  # again, as another thread may have closed it
            peer = self.peer(rank)
            peer.progress()
            if peer.on_host and peer.link.peer.status in (RANK_CLOSED, RANK_FAILED):
                self.find_departures()
            peer.send(message)
        finally:
            self.release()
        if not peer.on_host:
            peer.connect(message.name, message.timeout)
        if self.finished:
            self.call_back()
        return message

    cdef Message begin_receive(self, str name, buf, source, tag, double seconds):
        cdef Message message
        cdef Peer peer
        cdef int64_t rank = -1
        cdef list remote
        self.check_open(name)
        if source is not None:
            rank = self.checked(source, "source", name, self.size - 1)
        message = new_message(
            name, buf, self.checked(tag, "tag", name, INT64_MAX), source, seconds, self
        )
        message.check_target()
        self.acquire()
        try:
            self.check_open(name)  # again, as another thread may have closed it
            self.tickets += 1
            message.ticket = self.tickets
            remote = (
                self.receive_from_any(message) if rank < 0
                else self.receive(message, rank)
            )
        finally:
            self.release()
        for peer in remote:
            peer.connect(message.name, message.timeout)
        if self.finished:
            self.call_back()
        return message

    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1:
        """An argument from 0 to ``most``."""
        if type(value) is int and 0 <= value <= most:
            return value
        return integer(value, name, call, 0, most)

    cdef int check_open(self, str call) except -1:
        if self.closed or self.shared.end == NULL or self.is_forked():
            home = self.home()
            if home is not None:
                home.check_open(call)
            raise errors.closed(call, self.rank)
        return 0

    cdef Peer peer(self, int64_t rank):
        """The messages of this rank and another."""
        cdef Peer found = <Peer>self.peers[rank]
        if found is None:
            place = -1 if rank == self.rank else self.places.get(rank, -1)
            found = Peer(self.rank, rank, self.shared, place, self)
            if rank != self.rank:
                found.connection = self.connection(found)
            self.know(found)
        return found

    cdef int check_background(self, str call) except -1:
        """Check that messages can move in the background."""
        home = self.home()
        if home is not None:
            home.check_background(call)
        return 0

    def probe(self, source, tag, double seconds):
        """Wait for a message: its sender, its dtype and the number of its elements."""
        cdef int64_t turn = 0, until = time_after(seconds)
        self.check_open("probe")
        self.enter()
        try:
            while (found := self.iprobe(source, tag, seconds)) is None:
                if nanoseconds() >= until:
                    raise errors.not_probed(source, tag, self.rank, self.size, seconds)
                self.idle(until, turn)
                turn += 1
        finally:
            self.leave()
        return found

    def iprobe(self, source, tag, double seconds):
        """The same without a wait; None if no message has come."""
        cdef Arrival arrival
        cdef Peer peer
        self.check_open("probe")
        cdef int64_t number = self.checked(tag, "tag", "probe", INT64_MAX)
        cdef list remote = []
        ranks = range(self.size) if source is None else [
            self.checked(source, "source", "probe", self.size - 1)
        ]
        self.acquire()
        try:
            self.check_open("probe")
            for peer in [self.peer(rank) for rank in ranks]:
                peer.progress()
                arrival = <Arrival>peer.unexpected.first(number)
                if arrival is not None:
                    return peer.rank, DTYPES[arrival.head.dtype], arrival.head.count
                if peer.failure is not None and not (source is None and peer.has_left):
                    raise peer.error("probe")
                if not peer.on_host:
                    remote.append(peer)
        finally:
            self.release()
        for peer in remote:
            peer.connect("probe", math.inf if seconds < 0 else seconds)
        return None

    def unexpected_bytes(self, int64_t rank):
        """The bytes of short messages of a rank that no call has taken yet."""
        cdef Arrival arrival
        cdef int64_t found = 0
        for arrival in self.peer(rank).unexpected.items():
            if arrival.elements is not None:
                found += arrival.head.nbytes
        return found

    # ---- matching

    cdef list receive(self, Message message, int64_t source):
        """Take a message of a rank that has come, or wait for it.

        Returns the ranks to connect with, without the lock.
        """
        cdef Peer peer = self.peer(source)
        if peer.receive(message):
            return []
        peer.post(message)
        peer.progress()
        return [] if peer.on_host else [peer]

    cdef list receive_from_any(self, Message message):
        """Take a message of any rank that has come, or wait for it."""
        cdef Peer peer
        cdef list remote = []
        ranks = [*range(self.next_source, self.size), *range(self.next_source)]
        for peer in [self.peer(rank) for rank in ranks]:
            peer.progress()
            if peer.receive(message):
                self.next_source = (peer.rank + 1) % self.size
                return []
            if not peer.on_host:
                remote.append(peer)
        if self.fail_from_any(message):
            return []
        self.from_any.add(message)
        return remote

    cdef Message take_posted(self, Inbox inbox, int64_t tag):
        cdef Message own = <Message>inbox.posted.first(tag)
        cdef Message other = <Message>self.from_any.first(tag)
        if own is None or (other is not None and other.ticket < own.ticket):
            if other is not None:
                self.from_any.remove(other)
                self.next_source = (inbox.rank + 1) % self.size
            return other
        inbox.posted.remove(own)
        return own

    cdef int lose(self, error) except -1:
        cdef Message message
        for message in self.from_any.items():
            if error is not None:
                message.end(error)
            if message.over or self.fail_from_any(message):
                self.from_any.remove(message)
        return 0

    cdef bint fail_from_any(self, Message message) except -1:
        """Fail a receive from any rank, if a rank has failed or all have left."""
        cdef Peer peer
        others = [peer for peer in self.known if peer.rank != self.rank]
        if others and sum(peer.has_left for peer in others) == self.size - 1:
            ranks = tuple(sorted(peer.rank for peer in others))
            message.end(errors.all_gone(message, self.rank, ranks))
            return True
        for peer in others:
            if peer.failure is not None and not peer.has_left:
                message.end(peer.error(message.name))
                return True
        return False

    # ---- the end

    def close(self):
        """Fail all messages that are not done, and release all channels."""
        cdef Peer peer
        cdef Message message
        if self.closed or self.is_forked():
            self.closed = True
            return
        self.send_rest()
        self.acquire()
        try:
            self.closed = True
            for message in [*self.from_any.clear(), *self.to_fetch]:
                message.end(errors.closed(message.name, self.rank))
            self.to_fetch.clear()
            until = monotonic() + LAST_SECONDS
            for peer in self.known:
                self.await_readers(peer, until)
                peer.fail(partial(errors.closed, rank=self.rank))
                peer.unexpected.clear()
                if peer.channel is not None:
                    peer.channel.close()
            self.enter()
        finally:
            self.release()
        wake_waiters(self.bell)
        self.leave()
        self.call_back()

    cdef int send_rest(self) except -1:
        """Wait until other ranks have read what is done for its callers."""
        home = self.home()
        if home is None or not home.is_open:
            return 0
        until = monotonic() + min(home.timeout, LAST_SECONDS)
        while self.has_unread() and monotonic() < until:
            self.poll()  # as others may wait for this rank in the same way
            sleep(1e-4)
        return 0

    cdef bint has_unread(self) except -1:
        cdef Peer peer
        for peer in self.known:
            if peer.failure is None and peer.is_unread():
                return True
        return False

    cdef int await_readers(self, Peer peer, double until) except -1:
        """Take back long messages, and wait for those that the other rank reads now."""
        while peer.is_being_read() and monotonic() < until:
            if peer.link.peer.status in (RANK_CLOSED, RANK_FAILED):
                break
            sleep(1e-4)
        return 0
