from libc.stdint cimport int32_t

from collalgo._kernels.engine.transport.endpoint cimport endpoint
from collalgo._kernels.engine.transport.segment cimport Segment
from collalgo._kernels.engine.transport.transport cimport Transport


cdef class Attachment(Transport):
    cdef object __weakref__
    cdef readonly Segment segment
    cdef readonly tuple members
    cdef endpoint *end
    cdef int32_t generation

    cdef int configure(self, waits, bint across) except -1
    cdef endpoint *open(self) except NULL
