# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The receives of a rank, from one other rank or from any, and their messages."""

from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.inbox cimport Inbox
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.progress cimport Progress
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint

from collalgo.comm.point_to_point import errors
from collalgo.comm.world_failures import message_error


cdef class Receiving(Progress):
    """The receives of a rank of a communicator; see :class:`Progress`.

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

    cdef int check_open(self, str call) except -1:
        if self.closed or self.shared.end == NULL or self.is_forked():
            home = self.home()
            if home is not None:
                home.check_open(call)
            raise errors.closed(call, self.rank)
        return 0

    cdef object in_world(self, error):
        home = self.home()
        return error if home is None else message_error(error, home.context)

    cdef Peer peer(self, int64_t rank):
        """The messages of this rank and another."""
        cdef Peer found = <Peer>self.peers[rank]
        if found is None:
            place = -1 if rank == self.rank else self.places.get(rank, -1)
            found = Peer(self.rank, rank, self.shared, place, self)
            if rank != self.rank:
                found.connection = self.connection(found)
            self.add_peer(found)
        return found

    cdef list receive(self, Message message, int64_t source):
        """Take a message of a rank that has arrived, or wait for it.

        Returns the ranks to connect with, without the lock.
        """
        cdef Peer peer = self.peer(source)
        if peer.receive(message):
            return []
        peer.post(message)
        peer.progress()
        return [] if peer.on_host else [peer]

    cdef list receive_from_any(self, Message message):
        """Take a message of any rank that has arrived, or wait for it."""
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
        if self.fail_receive_from_any(message):
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

    cdef int fail_receives_from_any(self, error) except -1:
        cdef Message message
        for message in self.from_any.items():
            if error is not None:
                message.end(error)
            if message.over or self.fail_receive_from_any(message):
                self.from_any.remove(message)
        return 0

    cdef bint fail_receive_from_any(self, Message message) except -1:
        """Fail a receive from any rank, if a rank has failed or all have left."""
        cdef Peer peer
        others = [peer for peer in self.known if peer.rank != self.rank]
        if others and sum(peer.has_left for peer in others) == self.size - 1:
            ranks = tuple(sorted(peer.rank for peer in others))
            message.end(errors.all_left(message, self.rank, ranks))
            return True
        for peer in others:
            if peer.failure is not None and not peer.has_left:
                message.end(peer.error(message.name))
                return True
        return False
