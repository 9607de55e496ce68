from libc.stdint cimport int32_t, int64_t

from collalgo._kernels.segment cimport Segment
from collalgo._kernels.transport cimport Transport, call_record


cdef extern from "<poll.h>" nogil:
    ctypedef struct pollfd "struct pollfd":
        int fd


cdef extern from "transport.h" nogil:
    ctypedef struct wait_turns:
        int64_t spins, hopes, yields, yields_in_waves
    ctypedef struct endpoint:  # of which only its C knows more
        pollfd *processes
        int64_t sequence
        int64_t *names
        int64_t small_bytes, held
        wait_turns usual, aside
        int64_t nap, remembers
        double timeout, waiting_since, checked


cdef class SharedMemory(Transport):
    cdef object __weakref__
    cdef readonly Segment segment
    cdef readonly tuple members
    cdef endpoint *end
    cdef int32_t generation

    cdef endpoint *open(self) except NULL
    cdef const call_record *called(self) noexcept nogil
    cdef void accuse(
        self, bint of_mismatch, int64_t culprit, int64_t sequence,
        const call_record *theirs
    ) noexcept nogil
