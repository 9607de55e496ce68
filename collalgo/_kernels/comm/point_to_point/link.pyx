# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The records that this rank writes to one other, in order.

Inside a host a ring of shared memory carries the records of messages and the elements of
short messages; the receiver reads long messages in the memory of the sender. The lanes of a
channel carry the others: messages between hosts, messages of arrays on devices, and long
messages where a process must not read the memory of another.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

from collections import deque

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport (
    link_open,
    link_put,
    link_refresh,
    message_head,
)


cdef class Link:
    """The link from this rank to one other.

    Parameters
    ----------
    me, rank
        This rank and the other, in their communicator.
    shared, place
        The memory of the host, and the place of the other rank in it; -1 on another host.

    Attributes
    ----------
    connection : Connection or None
        Connects the channel; None for messages of a rank to itself.
    channel : Channel or None
        Once the two are connected.
    """

    def __init__(self, int64_t me, int64_t rank, HostEndpoint shared, int64_t place):
        self.me, self.rank = me, rank
        self.unsent = deque()  # records with their payload, and long messages
        self.on_host = place >= 0
        if self.on_host:
            link_open(&self.link, shared.open(), place)

    cdef int put(
        self, const message_head *head, const char *data, int64_t nbytes
    ) except -1:
        """Write a record and its payload, now or when there is room."""
        if self.unsent or not self.write(head, data, nbytes):
            self.unsent.append(
                PyBytes_FromStringAndSize(<const char *>head, sizeof(message_head))
                + PyBytes_FromStringAndSize(data, nbytes)
            )
            self.link.waits_for_room = True
        return 0

    cdef bint write(
        self, const message_head *head, const char *data, int64_t nbytes
    ) except -1:
        """Write a record and its payload: False without room now."""
        if self.on_host:
            return link_put(&self.link, head, data, nbytes)
        if self.channel is None:
            return False
        self.channel.write(
            PyBytes_FromStringAndSize(<const char *>head, sizeof(message_head)),
            PyBytes_FromStringAndSize(data, nbytes),
        )
        return True

    cdef bint request(self, Message message) except -1:
        """Request to send a long message: False without room now."""
        return False

    cdef int flush(self) except -1:
        """Write the records that have waited for room."""
        cdef bytes packed
        cdef const char *head
        cdef int64_t size = sizeof(message_head)
        while self.unsent:
            first = self.unsent[0]
            if isinstance(first, Message):
                if (<Message>first).waits and not self.request(<Message>first):
                    break
            else:
                packed = first
                head = PyBytes_AS_STRING(packed)
                if not self.write(<message_head *>head, head + size, len(packed) - size):
                    break
            self.unsent.popleft()
        self.link.waits_for_room = bool(self.unsent)
        if self.on_host and self.unsent:
            link_refresh(&self.link)
        return 0

    cdef int connect(self, str call, double seconds) except -1:
        """Connect the channel in the background for a call, unless that has begun."""
        if self.connection is not None and self.channel is None:
            self.connection.start(call, seconds)
        return 0
