# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages that a rank sends to another."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from collalgo._kernels.comm.point_to_point.link cimport Kind, Link
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.engine.pinning cimport pinned
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport (
    CLAIM_LATER,
    CLAIMS,
    THROUGH_CHANNEL,
    link_is_attached,
    link_is_read,
    link_open_claim,
    link_withdraw,
    message_head,
)

from collalgo.base.cache import make_room
from collalgo.comm.point_to_point import errors
from collalgo.engine.dtypes import dtype_code

#: The most bytes of a message that is sent at once inside a host.
cdef int64_t EAGER_BYTES = 16384

#: The most bytes of short messages that a rank keeps for another before it receives
#: them; further ones wait at their sender.
KEPT_BYTES = 4 << 20

#: The number of the dtype of bytes.
cdef uint32_t BYTE = dtype_code(np.dtype(np.uint8))

#: The bytes that a short message counts in addition to its elements.
cdef int64_t HEAD_BYTES = sizeof(message_head)


cdef class Outbox(Link):
    """The messages from this rank to another; see :class:`Link`."""

    def __init__(self, int64_t me, int64_t rank, HostEndpoint shared, int64_t place):
        super().__init__(me, rank, shared, place)
        self.claimed = [None] * CLAIMS  # messages that the other rank may read, by claim
        self.asked = {}  # messages that wait for an answer, by number
        self.granted = []  # messages that wait for the channel
        self.refused = {}  # the error of the last message of a tag
        self.eager_bytes, self.kept_bytes = EAGER_BYTES, KEPT_BYTES

    cdef object error(self, str call):
        """The error of a call with the other rank, if all calls fail."""
        return None if self.failure is None else self.failure(call)

    cdef int send(self, Message message) except -1:
        """Begin to send a message."""
        cdef message_head head
        error = self.error_of(message)
        if error is not None:
            message.end(error)
            return 0
        self.count += 1
        message.number = self.count
        message.pack()
        if self.me == self.rank:
            self.loop_back(message)
        elif self.is_eager(message):
            self.given += message.nbytes + HEAD_BYTES
            message.fill_head(&head, Kind.EAGER)
            self.put(&head, message.data, message.nbytes)
            message.end(None)
        elif self.unsent or not self.request(message):
            self.unsent.append(message)
            self.link.waits_for_room = True
        return 0

    @cython.final
    cdef object error_of(self, Message message):
        """The error of a message: of one before it with its tag, or of all; or None."""
        error = self.refused.pop(message.tag, None) if self.refused else None
        return self.error(message.name) if error is None else error

    cdef int loop_back(self, Message message) except -1:
        """Send a message of this rank to itself."""
        return 0

    cdef bint is_eager(self, Message message) except -1:
        """Whether a message is sent at once: its receiver may be in another call.

        Without room, a copy waits, so that two ranks which both send before they
        receive do not wait for each other.
        """
        return not message.on_device and self.has_room(message.nbytes)

    cdef bint has_room(self, int64_t nbytes) except -1:
        """Whether the other rank keeps a short message of some bytes."""
        if nbytes > self.eager_bytes:
            return False
        cdef int64_t most = self.given + nbytes + HEAD_BYTES - self.kept_bytes
        if self.on_host:
            return most <= 0 or most <= self.link.out.taken
        return most <= (0 if self.channel is None else self.channel.taken_there)

    cdef bint put_record(self, bytes record, int64_t tag) except -1:
        """Send bytes as a short message: False if that is not possible now."""
        cdef message_head head
        cdef int64_t nbytes = PyBytes_GET_SIZE(record)
        if self.failure is not None or self.refused or not self.has_room(nbytes):
            return False
        self.count += 1
        self.given += nbytes + HEAD_BYTES
        memset(&head, 0, sizeof(message_head))
        head.kind, head.dtype, head.tag, head.claim = Kind.EAGER, BYTE, tag, -1
        head.number, head.count, head.nbytes = self.count, nbytes, nbytes
        self.put(&head, PyBytes_AS_STRING(record), nbytes)
        return True

    cdef bint request(self, Message message) except -1:
        cdef message_head head
        if self.on_host and not link_is_attached(&self.link):
            return False
        message.fill_head(&head, Kind.REQUEST)
        if self.may_claim(message):
            head.claim = CLAIM_LATER
            self.claim(message, &head, False)
        if not self.write(&head, NULL, 0):
            if message.claim >= 0:
                link_withdraw(&self.link, message.claim, message.number)
                self.claimed[message.claim] = None
                message.claim = -1
            return False
        message.pins = pinned(message.array, None)
        if message.claim < 0:
            self.asked[message.number] = message
        if head.claim == THROUGH_CHANNEL:
            self.connect(message.name, message.timeout)
        return True

    cdef bint may_claim(self, Message message) noexcept:
        """Whether the other rank can read a message in the memory of this process."""
        return self.on_host and self.link.peer.can_fetch and not message.on_device

    cdef bint claim(self, Message message, message_head *head, bint is_awaited):
        """Let the other rank read a long message; False without a free claim now."""
        cdef int claim = link_open_claim(&self.link, message.number, is_awaited)
        if claim < 0:
            return False
        self.claimed[claim] = message
        message.claim = head.claim = claim
        head.place = <int64_t>message.data
        return True

    cdef bint has_sends(self):
        """Whether a message waits for the other rank, or for room."""
        return bool(self.link.open_claims or self.asked or self.granted or self.unsent)

    cdef bint is_unread(self) except -1:
        """Whether the other rank has not read a message whose send has returned."""
        if any(not isinstance(each, Message) for each in self.unsent):
            return True
        return self.channel is not None and self.channel.is_writing

    cdef bint end_read(self) except -1:
        """End the messages that the other rank has read; return whether any ended."""
        cdef uint64_t left = self.link.open_claims
        cdef int claim = 0
        cdef bint found = False
        cdef Message message
        while left:
            if left & 1 and link_is_read(&self.link, claim):
                message = <Message>self.claimed[claim]
                self.claimed[claim] = None
                message.end(None)
                found = True
            left >>= 1
            claim += 1
        if found and self.granted:
            self.send_granted()
        return found

    cdef int grant(self, int64_t number) except -1:
        """Send the elements of a message that its receiver has granted."""
        message = self.asked.pop(number, None)
        if message is not None:
            self.granted.append(message)
            self.send_granted()
        return 0

    cdef int send_granted(self) except -1:
        cdef message_head head
        cdef Message message
        while self.granted:
            message = self.granted[0]
            message.fill_head(&head, Kind.DATA)
            if self.may_claim(message):
                if not self.claim(message, &head, True):
                    break
            elif self.channel is None:
                break
            self.granted.pop(0)
            self.put(&head, NULL, 0)
            if message.claim < 0:
                message.follow(self.channel.send_later(message.array))
        return 0

    # ---- errors

    cdef int handle_refusal(
        self, const message_head *theirs, const message_head *mine
    ) except -1:
        """Handle a message that does not fit the call of its receiver."""
        sender = errors.End(self.me, mine.dtype, mine.count, bool(mine.on_device))
        receiver = errors.End(
            self.rank, theirs.dtype, theirs.count, bool(theirs.on_device)
        )
        error = errors.mismatch(theirs.number, sender, receiver, self.me)
        cdef Message message = self.find(theirs.number)
        if message is None:  # its call has returned
            message = self.find_tag(theirs.tag)
        if message is not None and self.take_back(message):
            message.end(error)
        else:
            self.refused[theirs.tag] = error
            make_room(self.refused)
        return 0

    cdef Message find(self, int64_t number):
        """The message of a number that waits for the other rank."""
        cdef Message message
        for message in self.sends():
            if message.number == number:
                return message
        return None

    cdef Message find_tag(self, int64_t tag):
        """The first message of a tag that waits for the other rank."""
        cdef Message message, found = None
        for message in self.sends():
            if message.tag == tag and (found is None or message.number < found.number):
                found = message
        return found

    cdef list sends(self):
        """The messages whose calls wait for the other rank."""
        queued = [each for each in self.unsent if isinstance(each, Message)]
        claimed = [each for each in self.claimed if each is not None]
        return [*claimed, *self.asked.values(), *self.granted, *queued]

    cdef bint take_back(self, Message message) except -1:
        """Take back a message: False if it is not of this pair, or is being read."""
        cdef message_head head
        if message.claim >= 0:
            if self.claimed[message.claim] is not message:
                return False
            if not link_withdraw(&self.link, message.claim, message.number):
                return False
            self.claimed[message.claim] = None
        elif self.asked.get(message.number) is message:
            del self.asked[message.number]
            message.fill_head(&head, Kind.WITHDRAWAL)
            self.put(&head, NULL, 0)
        elif message in self.granted:
            self.granted.remove(message)
            message.fill_head(&head, Kind.WITHDRAWAL)
            self.put(&head, NULL, 0)
        elif message in self.unsent:
            self.unsent.remove(message)
        else:
            return False
        return True

    cdef bint is_being_read(self) except -1:
        """Whether the other rank reads a message now; the others are taken back."""
        cdef Message message
        self.end_read()
        for message in [each for each in self.claimed if each is not None]:
            self.take_back(message)
        return bool(self.link.open_claims)
