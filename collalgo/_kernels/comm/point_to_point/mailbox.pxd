from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.progress cimport Progress


cdef class Mailbox(Progress):
    cdef object connection, home
    cdef int64_t next_source, tickets

    cdef Peer peer(self, int64_t rank)
    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1
    cdef Message begin_send(self, str name, buf, to, tag, double seconds)
    cdef Message begin_receive(self, str name, buf, source, tag, double seconds)
    cdef int check_background(self, str call) except -1
    cdef list receive(self, Message message, int64_t source)
    cdef list receive_from_any(self, Message message)
    cdef bint fail_from_any(self, Message message) except -1
    cdef int send_rest(self) except -1
    cdef bint has_unread(self) except -1
    cdef int await_readers(self, Peer peer, double until) except -1
