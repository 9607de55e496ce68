# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages that a rank receives from another, matched by their tags.

An unexpected short message is kept, up to a limit at its sender; of an unexpected long
message only its announcement is kept. So calls may receive in any order.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.by_tag cimport ByTag, Tagged
from collalgo._kernels.comm.point_to_point.link cimport Kind
from collalgo._kernels.comm.point_to_point.message cimport Message, Owner
from collalgo._kernels.comm.point_to_point.outbox cimport Outbox
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport (
    THROUGH_CHANNEL,
    message_head,
)

from collalgo.comm.point_to_point import errors


cdef class ReceiveMatching(Owner):
    """The interface to the receives of a rank, for its messages with one other rank."""

    cdef Message take_posted(self, Inbox inbox, int64_t tag):
        """The oldest receive that matches a message, or None."""
        return None

    cdef int queue_fetch(self, Message message) except -1:
        """Queue a long message to be read in the memory of its sender, without the lock."""
        return 0

    cdef int fail_receives_from_any(self, error) except -1:
        """Fail the receives from any rank: all with an error, or those without a sender."""
        return 0

    cdef object in_collective(self, ranks):
        """The first of some ranks that is in a call which this rank has not begun."""
        return None


cdef class Arrival(Tagged):
    """An unexpected message: no call has received it yet."""


cdef class Inbox(Outbox):
    """The messages from another rank to this one; see :class:`Outbox`.

    Parameters
    ----------
    owner
        All messages of this rank.
    """

    def __init__(
        self, int64_t me, int64_t rank, HostEndpoint shared, int64_t place,
        ReceiveMatching owner
    ):
        super().__init__(me, rank, shared, place)
        self.owner = owner
        self.posted, self.unexpected = ByTag(), ByTag()
        self.cleared = {}  # receives that wait for their elements, by the message number
        self.announced = []  # receives whose elements are sent before the channel is connected

    cdef int post(self, Message message) except -1:
        """Let a receive wait for its message."""
        if self.failure is not None:
            message.end(self.failure(message.name))
        else:
            self.posted.add(message)
        return 0

    cdef bint receive(self, Message message) except -1:
        """Take a message that has arrived; return whether there was one."""
        cdef Arrival arrival = <Arrival>self.unexpected.first(message.tag)
        if arrival is None:
            return False
        self.unexpected.remove(arrival)
        if arrival.is_withdrawn:
            message.source, message.number = self.rank, arrival.head.number
            message.end(errors.withdrawn(message.number, self.me, self.rank, message.tag))
        elif arrival.elements is None:
            self.deliver(message, &arrival.head, NULL)
        else:
            self.deliver(message, &arrival.head, PyBytes_AS_STRING(arrival.elements))
        return True

    cdef int arrive(self, const message_head *head, const char *elements) except -1:
        """Give a message to the call that waits for it, or keep it."""
        cdef Arrival arrival
        cdef Message message = self.owner.take_posted(self, head.tag)
        if message is not None:
            self.deliver(message, head, elements)
            return 0
        arrival = Arrival()
        arrival.tag, arrival.head = head.tag, head[0]
        if head.kind == Kind.EAGER:
            arrival.elements = PyBytes_FromStringAndSize(elements, head.nbytes)
        self.unexpected.add(arrival)
        return 0

    cdef int deliver(
        self, Message message, const message_head *head, const char *elements
    ) except -1:
        """Give a message to a call."""
        message.source, message.number = self.rank, head.number
        if head.kind == Kind.EAGER:
            self.count_taken(head.nbytes)
        if (
            head.count != message.count or head.dtype != message.dtype
            or head.nbytes != message.nbytes or head.on_device != message.on_device
        ):
            self.refuse(message, head)
        elif head.kind == Kind.EAGER:
            message.take(elements)
            message.end(None)
        elif self.failure is not None:
            message.end(self.failure(message.name))
        elif head.claim >= 0:
            self.fetch(message, head)
        else:
            message.claim = head.claim
            self.clear(message)
        return 0

    cdef int clear(self, Message message) except -1:
        """Let the other rank send the elements of a long message."""
        cdef message_head head
        self.cleared[message.number] = message
        message.fill_head(&head, Kind.CLEAR)
        self.put(&head, NULL, 0)
        if message.claim == THROUGH_CHANNEL:
            self.connect(message.name, message.timeout)
        return 0

    cdef int fetch(self, Message message, const message_head *head) except -1:
        """Read a long message in the memory of its sender."""
        message.incoming = head[0]
        return self.owner.queue_fetch(message)

    cdef int count_taken(self, int64_t nbytes) except -1:
        """Notify the other rank that a short message is no longer kept."""
        if self.on_host:
            self.link.in_.taken += nbytes + sizeof(message_head)
        elif self.channel is not None and self.failure is None:
            self.channel.take(nbytes)
        return 0

    cdef int handle_data(self, const message_head *head) except -1:
        """The elements of a long message can be received."""
        cdef Message message = self.cleared.pop(head.number, None)
        if head.claim < 0:
            self.announced.append(message)
            self.read_announced()
        elif message is not None:
            self.fetch(message, head)
        else:  # this rank has cancelled the receive: the next call of the tag takes it
            self.arrive(head, NULL)
        return 0

    cdef int read_announced(self) except -1:
        """Receive the elements of long messages through the channel."""
        cdef Message message
        while self.announced and self.channel is not None:
            message = self.announced.pop(0)
            if message is None:  # this rank has cancelled it
                self.leave(False, "a message was given up")
                return 0
            message.follow(self.channel.read_later(message.array))
        return 0

    cdef int leave(self, bint in_order, str why) except -1:
        """Handle the end of the other rank."""
        return 0

    # ---- errors

    cdef int refuse(self, Message message, const message_head *head) except -1:
        """Report to both ranks that a message does not fit the call that receives it."""
        cdef message_head mine
        sender = errors.End(self.rank, head.dtype, head.count, bool(head.on_device))
        receiver = errors.End(
            self.me, message.dtype, message.count, bool(message.on_device)
        )
        message.end(errors.mismatch(head.number, sender, receiver, self.me))
        if self.failure is None and self.me != self.rank:
            message.fill_head(&mine, Kind.REFUSAL)
            self.put(&mine, <const char *>head, sizeof(message_head))
        return 0

    cdef int handle_withdrawal(self, int64_t number, int64_t tag) except -1:
        """Handle the cancellation of an announced message by the other rank."""
        cdef Message message = self.cleared.pop(number, None)
        cdef Arrival arrival
        if message is not None:
            message.end(errors.withdrawn(number, self.me, self.rank, tag))
        for arrival in self.unexpected.items():
            arrival.is_withdrawn |= arrival.head.number == number
        return 0
