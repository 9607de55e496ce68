from libc.stdint cimport int64_t, uint8_t

from collalgo._kernels.comm.point_to_point.link cimport Link
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.engine.transport.message_ring cimport message_head


cdef class Outbox(Link):
    cdef int64_t count, given, eager_bytes, kept_bytes
    cdef list claimed, granted
    cdef dict asked, refused
    cdef object failure

    cdef object error(self, str call)
    cdef object error_of(self, Message message)
    cdef int send(self, Message message) except -1
    cdef bint put_record(self, bytes record, int64_t tag) except -1
    cdef bint has_room(self, int64_t nbytes) except -1
    cdef bint is_eager(self, Message message) except -1
    cdef int loop_back(self, Message message) except -1
    cdef bint has_sends(self)
    cdef bint is_unread(self) except -1
    cdef bint end_read(self) except -1
    cdef bint may_claim(self, Message message) noexcept
    cdef bint claim(self, Message message, message_head *head, bint is_awaited)
    cdef int grant(self, int64_t number) except -1
    cdef int send_granted(self) except -1
    cdef int handle_refusal(
        self, const message_head *theirs, const message_head *mine
    ) except -1
    cdef Message find(self, int64_t number)
    cdef Message find_tag(self, int64_t tag)
    cdef list sends(self)
    cdef bint take_back(self, Message message) except -1
    cdef bint is_being_read(self) except -1
