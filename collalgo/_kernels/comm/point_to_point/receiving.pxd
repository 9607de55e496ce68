from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.progress cimport Progress


cdef class Receiving(Progress):
    cdef object connection, home
    cdef int64_t next_source, tickets

    cdef Peer peer(self, int64_t rank)
    cdef list receive(self, Message message, int64_t source)
    cdef list receive_from_any(self, Message message)
    cdef bint fail_receive_from_any(self, Message message) except -1
