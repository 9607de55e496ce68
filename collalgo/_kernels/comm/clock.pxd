from libc.stdint cimport int64_t

cdef extern from "ticks.h" nogil:
    int64_t ticks()
    int64_t nanoseconds()

cdef struct moment:
    int64_t tick, nanosecond


cdef class Clock:
    cdef double rate
    cdef moment begun
    cpdef int64_t time(self, int64_t tick)
