from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.by_tag cimport ByTag, Tagged
from collalgo._kernels.comm.point_to_point.message cimport Message, Owner
from collalgo._kernels.comm.point_to_point.outbox cimport Outbox
from collalgo._kernels.engine.transport.message_ring cimport message_head


cdef class Inbox


cdef class ReceiveMatching(Owner):
    cdef Message take_posted(self, Inbox inbox, int64_t tag)
    cdef int queue_fetch(self, Message message) except -1
    cdef int fail_receives_from_any(self, error) except -1
    cdef object in_collective(self, ranks)


cdef class Arrival(Tagged):
    cdef message_head head
    cdef bytes elements  # of a short message
    cdef bint is_withdrawn


cdef class Inbox(Outbox):
    cdef ReceiveMatching owner
    cdef ByTag posted, unexpected
    cdef dict cleared
    cdef list announced

    cdef int post(self, Message message) except -1
    cdef bint receive(self, Message message) except -1
    cdef int arrive(self, const message_head *head, const char *elements) except -1
    cdef int deliver(
        self, Message message, const message_head *head, const char *elements
    ) except -1
    cdef int clear(self, Message message) except -1
    cdef int fetch(self, Message message, const message_head *head) except -1
    cdef int count_taken(self, int64_t nbytes) except -1
    cdef int handle_data(self, const message_head *head) except -1
    cdef int read_announced(self) except -1
    cdef int leave(self, bint in_order, str why) except -1
    cdef int refuse(self, Message message, const message_head *head) except -1
    cdef int handle_withdrawal(self, int64_t number, int64_t tag) except -1
