from collalgo._kernels.comm.point_to_point.inbox cimport Inbox
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.engine.transport.message_ring cimport (
    message_head,
    message_slot,
)


cdef class Peer(Inbox):
    cdef readonly bint has_left
    cdef bint reading

    cdef bint waits(self)
    cdef bint progress(self) except -1
    cdef bint read_slots(self) except -1
    cdef bint read_slot(self, const message_slot *slot) except -1
    cdef bint read_channel(self) except -1
    cdef int read_record(self) except -1
    cdef int handle(self, const message_head *head, const char *elements) except -1
    cdef int withdraw(self, Message message) except -1
    cdef object receive_error(self, Message message)
    cdef object send_error(self, Message message)
    cdef int abort(self, str reason) except -1
    cdef int handle_unreadable(self, int error) except -1
    cdef int fail(self, failure) except -1
    cdef int lose_channel(self, error) except -1
    cdef int refuse_unsent(self, error) except -1
