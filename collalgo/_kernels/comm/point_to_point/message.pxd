cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t

from collalgo._kernels.comm.point_to_point.by_tag cimport Tagged
from collalgo._kernels.comm.work cimport Work
from collalgo._kernels.engine.transport.message_ring cimport message_head


cdef class Message


cdef class Owner:
    cdef void acquire(self) noexcept
    cdef void release(self) noexcept
    cdef bint poll(self) except -1
    cdef bint await_message(self, Message message, int64_t until) except -1
    cdef bint cancel_receive(self, Message message) except -1
    cdef void queue_callbacks(self, Message message)
    cdef object in_world(self, error)


cdef class Message(Tagged):
    cdef readonly str name
    cdef readonly double timeout
    cdef readonly object source
    cdef readonly int64_t number
    cdef readonly cnp.ndarray array
    cdef object buf, pins, error
    cdef cnp.ndarray packed  # a copy in the order of the elements, if the array is not
    cdef char *data          # of the array, or of the copy
    cdef int64_t nbytes, count, deadline
    cdef message_head incoming  # of a long message that is still to be read
    cdef int claim
    cdef uint32_t dtype
    cdef bint on_device, over
    cdef Work work
    cdef list callbacks
    cdef Owner owner

    cdef int set_array(self, buf) except -1
    cdef int check_target(self) except -1
    cdef int pack(self) except -1
    cdef int make_room(self) except -1
    cdef int take(self, const char *elements) except -1
    cdef int unpack(self) except -1
    cdef void fill_head(self, message_head *head, uint8_t kind) noexcept
    cdef void end(self, error)
    cdef void follow(self, Work work)


cdef int64_t time_after(double seconds) noexcept
cdef Message new_message(str name, buf, int64_t tag, source, double seconds, Owner owner)
