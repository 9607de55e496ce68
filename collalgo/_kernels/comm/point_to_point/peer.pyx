# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages between this rank and one other, whose tags share one link."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.errno cimport ESRCH
from libc.string cimport memcpy

import os
from functools import partial

from collalgo._kernels.comm.point_to_point.inbox cimport Inbox
from collalgo._kernels.comm.point_to_point.link cimport Kind
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.engine.transport.message_ring cimport (
    THROUGH_CHANNEL,
    link_elements,
    link_peek,
    link_release,
    message_head,
    message_slot,
)

from collalgo.comm.point_to_point import errors
from collalgo.comm.reasons import CLOSED
from collalgo.errors import CollalgoError, CommunicatorClosed


cdef class Peer(Inbox):
    """The messages between this rank and one other; see :class:`Inbox`.

    The caller of a method holds the lock of all messages of this rank.

    Attributes
    ----------
    has_left : bool
        Whether the other rank has closed its communicator.
    """

    cdef bint waits(self):
        """Whether a call waits for the other rank."""
        return self.posted.count > 0 or self.has_sends() or bool(self.cleared)

    cdef bint progress(self) except -1:
        """Read and write without a wait: whether other ranks had written."""
        cdef bint found
        if self.unsent or self.link.waits_for_room:
            self.flush()
        if not self.on_host:
            return self.read_channel()
        found = self.link.open_claims and self.end_read()
        return self.read_slots() or found

    cdef bint read_slots(self) except -1:
        """Read all records in the ring; return whether there were any."""
        cdef bint found = False
        if self.reading or link_peek(&self.link) == NULL:
            return False
        self.reading = True  # as the release of memory may make calls
        try:
            while self.read_slot(link_peek(&self.link)):
                found = True
        finally:
            self.reading = False
        return found

    cdef bint read_slot(self, const message_slot *slot) except -1:
        cdef message_head head, behind
        if slot == NULL:
            return False
        head = slot.head
        if head.kind == Kind.EAGER:
            try:
                self.arrive(&head, link_elements(&self.link, slot))
            finally:
                link_release(&self.link)
        else:
            memcpy(&behind, link_elements(&self.link, slot), sizeof(behind))
            link_release(&self.link)
            self.handle(&head, <const char *>&behind)
        return True

    cdef bint read_channel(self) except -1:
        """Read all records that have arrived on the channel; return if any had."""
        cdef bint found = False
        if self.channel is None or self.reading or self.failure is not None:
            return False
        self.reading = True
        try:
            while (state := self.channel.state()) == "called":
                found = True
                self.read_record()
            if state == "left":
                found = True
                self.leave(True, CLOSED)
        except CommunicatorClosed:
            self.fail(partial(errors.closed, rank=self.me))
        except CollalgoError:
            found = True
            self.leave(False, self.channel.exit_reason())
        finally:
            self.reading = False
        return found

    @cython.final
    cdef int read_record(self) except -1:
        """Read the next record of the channel."""
        cdef bytes head, behind
        head, behind = self.channel.read()
        return self.handle(
            <message_head *>PyBytes_AS_STRING(head), PyBytes_AS_STRING(behind)
        )

    cdef int handle(self, const message_head *head, const char *elements) except -1:
        """Handle a record; ``elements`` is its payload."""
        if head.kind == Kind.EAGER or head.kind == Kind.REQUEST:
            self.arrive(head, elements)
        elif head.kind == Kind.CLEAR:
            self.grant(head.number)
        elif head.kind == Kind.DATA:
            self.handle_data(head)
        elif head.kind == Kind.REFUSAL:
            self.handle_refusal(head, <const message_head *>elements)
        elif head.kind == Kind.WITHDRAWAL:
            self.handle_withdrawal(head.number, head.tag)
        return 0

    cdef int loop_back(self, Message message) except -1:
        cdef message_head head
        message.fill_head(&head, Kind.EAGER)
        self.arrive(&head, message.data)
        message.end(None)
        return 0

    # ---- the end

    cdef int withdraw(self, Message message) except -1:
        """Cancel a message that still waits for the other rank."""
        if self.posted.remove(message):
            message.end(self.receive_error(message))
        elif self.cleared.get(message.number) is message:
            del self.cleared[message.number]
            message.end(self.receive_error(message))
            if message.claim == THROUGH_CHANNEL:  # its elements are in flight
                self.abort(f"it gave up {message.name} after {message.timeout:g} s")
        elif self.take_back(message):
            message.end(self.send_error(message))
        return 0

    cdef object receive_error(self, Message message):
        """The error of a receive that is cancelled."""
        busy = self.owner.in_collective((self.rank,))
        return errors.no_message(message, self.me, (self.rank,), busy)

    cdef object send_error(self, Message message):
        """The error of a send that is cancelled."""
        if self.on_host or self.channel is not None:
            busy = self.owner.in_collective((self.rank,))
            return errors.not_received(message, self.me, self.rank, busy)
        return errors.not_connected(message.name, self.me, self.rank, message.timeout)

    cdef int abort(self, str reason) except -1:
        """Close the channel because of an error here."""
        if self.channel is not None:
            self.channel.abort(reason)
        return self.fail(partial(errors.peer_left, rank=self.me, peer=self.me, why=reason))

    cdef int handle_unreadable(self, int error) except -1:
        """Handle an error when the memory of the other rank was read."""
        if error == ESRCH:
            return self.leave(False, "its process ended")
        why = os.strerror(error)
        return self.fail(partial(errors.unreadable, rank=self.me, peer=self.rank, why=why))

    cdef int leave(self, bint in_order, str why) except -1:
        """Handle the end of the other rank."""
        if self.failure is not None:
            return 0
        self.has_left = in_order
        self.fail(partial(errors.peer_left, rank=self.me, peer=self.rank, why=why))
        self.owner.fail_receives_from_any(None)
        return 0

    cdef int fail(self, failure) except -1:
        """Fail all calls that wait for the other rank, and all later ones."""
        cdef Message message
        self.failure = self.failure or failure
        waiting = [*self.sends(), *self.cleared.values(), *self.posted.clear()]
        self.is_being_read()
        self.asked, self.granted, self.cleared = {}, [], {}
        self.unsent.clear()
        for message in waiting:
            message.end(self.failure(message.name))
        return 0

    # ---- the connection, from the thread that connects

    def connected(self, channel):
        """Use the channel from now on; called from the thread that has connected it."""
        self.owner.acquire()
        try:
            if self.failure is not None:
                channel.close()
                return
            self.channel = channel
            if not self.on_host:
                self.eager_bytes = channel.eager_bytes
            self.flush()
            self.send_granted()
            self.read_announced()
        finally:
            self.owner.release()

    def cannot_connect(self, error):
        """Fail the calls that wait for the channel, or the next of their tags."""
        self.owner.acquire()
        try:
            self.lose_channel(error)
        finally:
            self.owner.release()

    cdef int lose_channel(self, error) except -1:
        cdef Message message
        if self.failure is not None:
            return 0
        for message in self.sends():
            if not self.may_claim(message) and self.take_back(message):
                message.end(error)
        for message in list(self.cleared.values()):
            if message.claim == THROUGH_CHANNEL:
                del self.cleared[message.number]
                message.end(error)
        if not self.on_host:
            self.refuse_unsent(error)
            for message in self.posted.clear():
                message.end(error)
            self.owner.fail_receives_from_any(error)
        return 0

    cdef int refuse_unsent(self, error) except -1:
        """Keep an error for messages whose calls have returned."""
        cdef const message_head *head
        for packed in self.unsent:
            head = <message_head *>PyBytes_AS_STRING(packed)
            self.refused[head.tag] = error
        self.unsent.clear()
        return 0
