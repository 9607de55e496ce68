# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a rank of a communicator: its calls, from the first to its end."""

cimport cython
from libc.stdint cimport int64_t

from functools import partial
from time import monotonic, sleep

import numpy as np

from collalgo._kernels.comm.point_to_point.message cimport Message, new_message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.probing cimport Probing
from collalgo._kernels.engine.pinning cimport pinned
from collalgo._kernels.engine.transport.message_ring cimport wake_waiters
from collalgo._kernels.engine.transport.segment cimport RANK_CLOSED, RANK_FAILED

from collalgo.base.integers import INT64_MAX
from collalgo.comm.point_to_point import errors

#: Seconds in which a rank that closes waits for others to read what it has sent.
LAST_SECONDS = 5.0


cdef class Mailbox(Probing):
    """The calls of a rank of a communicator with messages; see :class:`Probing`."""

    def send(self, buf, to, tag, double seconds, str name="send"):
        """Send a message, and wait until its array may be changed."""
        return self.finish(self.begin_send(name, buf, to, tag, seconds))

    def isend(self, buf, to, tag, double seconds):
        """Send a message in the background."""
        self.check_background("isend")
        return self.in_background(self.begin_send("isend", buf, to, tag, seconds))

    def recv(self, buf, source, tag, double seconds, str name="recv"):
        """Receive a message; without a source from the first sender."""
        if source is None:  # which connects with all ranks in the background
            self.check_background(name)
        return self.finish(self.begin_receive(name, buf, source, tag, seconds))

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

    def start_send(self, buf, to, tag):
        """Begin a send that makes progress only while this process polls."""
        return self.begin_send("isend", buf, to, tag, -1)

    def start_receive(self, buf, source, tag):
        """Begin a receive that makes progress only while this process polls."""
        return self.begin_receive("irecv", buf, source, tag, -1)

    def put_record(self, bytes record, int64_t rank, int64_t tag):
        """Send a record: None if it was sent at once, else its message."""
        cdef Peer peer = <Peer>self.peers[rank]
        cdef bint is_put = False
        self.acquire()
        try:
            self.check_open("send")
            if peer is not None and peer.on_host:
                peer.progress()
                if peer.link.peer.status in (RANK_CLOSED, RANK_FAILED):
                    self.find_departures()
                is_put = peer.put_record(record, tag)
        finally:
            self.release()
        if is_put:
            return None
        return self.start_send(np.frombuffer(record, np.uint8), rank, tag)

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
        if rank == self.rank and self.users:  # another thread may wait for it
            wake_waiters(self.bell)
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
                remote = self.receive_from_any(message)
            else:
                remote = self.receive(message, rank)
            if not message.over:
                message.pins = pinned(None, message.array)
            return remote
        finally:
            self.release()

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
