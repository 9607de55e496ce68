from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.inbox cimport Arrival
from collalgo._kernels.comm.point_to_point.message cimport Message
from collalgo._kernels.comm.point_to_point.peer cimport Peer
from collalgo._kernels.comm.point_to_point.receiving cimport Receiving


cdef class Probing(Receiving):
    cdef int64_t checked(self, value, str name, str call, int64_t most) except -1
    cdef int check_background(self, str call) except -1
    cdef object probe_error(self, source, int64_t tag, double seconds, str name)
    cdef tuple probe_peer(self, Peer peer, int64_t tag, bint is_any, str name)
    cdef bint has_record(self, int64_t tag)
    cdef list remove_records(self, int64_t tag)
    cdef object elements_of(self, Peer peer, Arrival arrival)
