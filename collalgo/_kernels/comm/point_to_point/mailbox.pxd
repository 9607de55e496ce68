from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.probing cimport Probing


cdef class Mailbox(Probing):
    cdef Message begin_send(self, str name, buf, to, tag, double seconds)
    cdef Peer send_locked(self, Message message, int64_t rank)
    cdef Message begin_receive(self, str name, buf, source, tag, double seconds)
    cdef list receive_locked(self, Message message, int64_t rank)
    cdef int fail_all(self) except -1
    cdef int send_rest(self) except -1
    cdef bint has_unread(self) except -1
    cdef int await_readers(self, Peer peer, double until) except -1
