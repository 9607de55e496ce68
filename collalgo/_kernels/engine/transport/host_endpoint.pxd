from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.attachment cimport Attachment
from collalgo._kernels.engine.transport.transport cimport call_record


cdef class HostEndpoint(Attachment):
    cdef const call_record *called(self) noexcept nogil
    cdef void report_failure(
        self, bint of_mismatch, int64_t culprit, int64_t sequence,
        const call_record *theirs
    ) noexcept nogil
