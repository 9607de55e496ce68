# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a rank of a communicator: its calls, from the first to its end."""

cimport cython
from libc.stdint cimport int64_t

import math
from functools import partial
from time import monotonic, sleep

from collalgo._kernels.comm.point_to_point.inbox cimport Arrival
from collalgo._kernels.comm.point_to_point.message cimport (
    Message,
    new_message,
    time_after,
)
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.receiving cimport Receiving
from collalgo._kernels.comm.recorder cimport nanoseconds
from collalgo._kernels.engine.transport.message_ring cimport wake_waiters
from collalgo._kernels.engine.transport.segment cimport RANK_CLOSED, RANK_FAILED

from collalgo.base.integers import INT64_MAX, integer
from collalgo.comm.point_to_point import errors
from collalgo.engine.dtypes import dtype_text

#: Seconds in which a rank that closes waits for others to read what it has sent.
LAST_SECONDS = 5.0


cdef class Mailbox(Receiving):
    """The calls of a rank of a communicator with messages; see :class:`Receiving`."""

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

    def sendrecv(self, buf, to, tag, out, source, recv_tag, double seconds):
        """Send a message and receive one at the same time."""
        if source is None:
            self.check_background("sendrecv")
        cdef Message received = self.begin_receive(
            "sendrecv", out, source, recv_tag, seconds
        )
        try:
            self.finish(self.begin_send("sendrecv", buf, to, tag, seconds))
        except BaseException:
            self.withdraw(received)
            raise
        return self.finish(received)

    cdef Message begin_send(self, str name, buf, to, tag, double seconds):
        self.check_open(name)
        cdef int64_t rank = self.checked(to, "to", name, self.size - 1)
        cdef Message message = new_message(
            name, buf, self.checked(tag, "tag", name, INT64_MAX), self.rank, seconds, self
        )
        if message.on_device and rank == self.rank:
            raise ValueError(
                f"{name}: rank {rank} cannot send an array on a device to itself; copy it"
            )
        cdef Peer peer = self.send_locked(message, rank)
        if not peer.on_host:
            peer.connect(message.name, message.timeout)
        if self.finished:
            self.call_back()
        return message

    @cython.final
    cdef Peer send_locked(self, Message message, int64_t rank):
        """Send a message to a rank, with the lock: the messages of the two."""
        cdef Peer peer
        self.acquire()
        try:
            self.check_open(message.name)  # again, as another thread may have closed it
            peer = self.peer(rank)
            peer.progress()
            if peer.on_host and peer.link.peer.status in (RANK_CLOSED, RANK_FAILED):
                self.find_departures()
            peer.send(message)
        finally:
            self.release()
        return peer

    cdef Message begin_receive(self, str name, buf, source, tag, double seconds):
        cdef Peer peer
        cdef int64_t rank = -1
        self.check_open(name)
        if source is not None:
            rank = self.checked(source, "source", name, self.size - 1)
        cdef Message message = new_message(
            name, buf, self.checked(tag, "tag", name, INT64_MAX), source, seconds, self
        )
        message.check_target()
        for peer in self.receive_locked(message, rank):
            peer.connect(message.name, message.timeout)
        if self.finished:
            self.call_back()
        return message

    @cython.final
    cdef list receive_locked(self, Message message, int64_t rank):
        """Receive a message from a rank, or from any if it is negative, with the lock.

        Returns the ranks to connect with, without the lock.
        """
        self.acquire()
        try:
            self.check_open(message.name)  # again, as another thread may have closed it
            self.tickets += 1
            message.ticket = self.tickets
            if rank < 0:
                return self.receive_from_any(message)
            return self.receive(message, rank)
        finally:
            self.release()

    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1:
        """An argument from 0 to ``most``."""
        if type(value) is int and 0 <= value <= most:
            return value
        return integer(value, name, call, 0, most)

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
                    raise self.probe_error(source, tag, seconds)
                self.await_write(until, turn)
                turn += 1
        finally:
            self.leave()
        return found

    cdef object probe_error(self, source, int64_t tag, double seconds):
        """The error of a probe that found no message."""
        peers = (source,) if source is not None else tuple(
            rank for rank in range(self.size) if rank != self.rank
        )
        busy = self.in_collective(peers)
        return errors.probe_error(source, tag, self.rank, peers, seconds, busy)

    def iprobe(self, source, tag, double seconds):
        """The same without a wait; None if no message has arrived."""
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
                if found := self.probe_peer(peer, number, source is None):
                    return found
                if not peer.on_host:
                    remote.append(peer)
        finally:
            self.release()
        for peer in remote:
            peer.connect("probe", math.inf if seconds < 0 else seconds)
        return None

    cdef tuple probe_peer(self, Peer peer, int64_t tag, bint is_any):
        """The first message of a rank with a tag, or None.

        Raises the failure of the rank, but not that it has left if any other may send.
        """
        cdef Arrival arrival
        peer.progress()
        arrival = <Arrival>peer.unexpected.first(tag)
        if arrival is not None:
            return peer.rank, dtype_text(arrival.head.dtype), arrival.head.count
        if peer.failure is not None and not (is_any and peer.has_left):
            raise peer.error("probe")
        return None

    def unexpected_bytes(self, int64_t rank):
        """The bytes of short messages of a rank that no call has taken yet."""
        cdef Arrival arrival
        cdef int64_t found = 0
        for arrival in self.peer(rank).unexpected.items():
            if arrival.elements is not None:
                found += arrival.head.nbytes
        return found

    # ---- the end

    def close(self):
        """Fail all messages that are not done, and release all channels."""
        if self.closed or self.is_forked():
            self.closed = True
            return
        self.send_rest()
        self.acquire()
        try:
            self.closed = True
            self.fail_all()
            self.enter()
        finally:
            self.release()
        wake_waiters(self.bell)
        self.leave()
        self.call_back()

    cdef int fail_all(self) except -1:
        """Fail all messages, and release the channels, with the lock."""
        cdef Peer peer
        cdef Message message
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
        return 0

    cdef int send_rest(self) except -1:
        """Wait until other ranks have read the messages whose sends have returned."""
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
