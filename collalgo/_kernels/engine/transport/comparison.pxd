from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.shared_memory cimport SharedMemory


cdef class Comparison:
    cdef SharedMemory shared
    cdef int64_t rank
    cdef double patience  # seconds of waiting before the first question
    cdef object questions  # the queue of names, or None
    cdef str name
    cdef int64_t asked    # the call of the last question,
    cdef double silent    # and the seconds of waiting in it before the next question

    cdef void ask_if_due(self) noexcept nogil
    cdef void ask_later(self) noexcept nogil
