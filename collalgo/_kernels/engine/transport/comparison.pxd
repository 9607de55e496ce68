from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.shared_memory cimport SharedMemory


cdef class Comparison:
    cdef SharedMemory shared
    cdef int64_t rank
    cdef double patience  # the seconds that it waits before it asks
    cdef object questions  # a queue for its name, or None
    cdef str name
    cdef int64_t asked    # the call of the last question,
    cdef double silent    # and for how many seconds to wait in it until the next one

    cdef dict call(self, int64_t sequence)
    cdef void inquire(self) noexcept nogil
    cdef void ask_later(self) noexcept nogil
