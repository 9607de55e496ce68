from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from collalgo._kernels.engine.transport.transport cimport call_record


cdef extern from "segment.h" nogil:
    enum: MISSING
    enum: FAILURE_MISMATCH
    enum: FAILURE_PEER
    enum: FAILURE_TIMEOUT
    enum: FAILURE_ELSEWHERE
    enum: RANK_CLOSED
    enum: RANK_FAILED
    enum: CALLS
    ctypedef struct world_failure:
        uint32_t kind
        int64_t rank, culprit, sequence, missing_ranks
        double waited
        call_record mine, theirs
        int32_t missing[MISSING]
    ctypedef struct world_header:
        double settings[16]
    ctypedef struct rank_header:
        uint32_t status
        int32_t process
        int64_t fetches
        uint64_t entered, completed
        call_record calls[CALLS]
        char exit_reason[1]
    int64_t segment_bytes(int64_t size)


cdef int32_t forks  # the number of forks between the start and this process


cdef class Segment:
    cdef char *base
    cdef int64_t nbytes, size
    cdef readonly int64_t heap_bytes
    cdef int32_t generation
    cdef bint private
