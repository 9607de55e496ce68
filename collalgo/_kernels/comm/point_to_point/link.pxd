from libc.stdint cimport int64_t

from collalgo._kernels.comm.point_to_point.message cimport Message, Owner
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.message_ring cimport message_head, message_link


cpdef enum Kind:
    EAGER = 0
    REQUEST = 1
    CLEAR = 2
    DATA = 3
    REFUSAL = 4
    WITHDRAWAL = 5
    CREDIT = 6


cdef class Link:
    cdef readonly int64_t me, rank
    cdef readonly bint on_host
    cdef readonly object channel
    cdef public object connection
    cdef message_link link
    cdef object unsent

    cdef int put(self, const message_head *head, const char *data, int64_t nbytes) except -1
    cdef bint write(
        self, const message_head *head, const char *data, int64_t nbytes
    ) except -1
    cdef bint request(self, Message message) except -1
    cdef int flush(self) except -1
    cdef int connect(self, str call, double seconds) except -1
