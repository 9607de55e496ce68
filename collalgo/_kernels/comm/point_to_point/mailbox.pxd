from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.receiving cimport Receiving


cdef class Mailbox(Receiving):
    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1
    cdef Message begin_send(self, str name, buf, to, tag, double seconds)
    cdef Peer send_locked(self, Message message, int64_t rank)
    cdef Message begin_receive(self, str name, buf, source, tag, double seconds)
    cdef list receive_locked(self, Message message, int64_t rank)
    cdef int check_background(self, str call) except -1
    cdef object probe_error(self, source, int64_t tag, double seconds)
    cdef tuple probe_peer(self, Peer peer, int64_t tag, bint is_any)
    cdef int fail_all(self) except -1
    cdef int send_rest(self) except -1
    cdef bint has_unread(self) except -1
    cdef int await_readers(self, Peer peer, double until) except -1
