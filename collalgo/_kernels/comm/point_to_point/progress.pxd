from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.polling cimport Polling


cdef class Progress(Polling):
    cdef bint serving

    cdef int64_t take_turn(self, Message message, int64_t until, int64_t turn) except -1
    cdef int await_write(self, int64_t until, int64_t turn) except -1
    cdef bint await_links(self, int64_t until) noexcept
    cdef list remote_peers(self)
    cdef int await_channels(self, list remote, double left, int64_t turn) except -1
    cdef object finish(self, Message message)
    cdef Message in_background(self, Message message)
    cdef bint has_waiting(self) except -1
    cdef list waiting(self)
