cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_site cimport CallSite
from collalgo._kernels.engine.program cimport Program

cdef enum:
    QUEUED = -51  # the state of a call that has not begun, and of one that has
    UNDER_WAY = -52

cdef struct call_entry:
    int64_t sequence, number, queued, begun, ended, count
    PyObject *program
    PyObject *counts  # of each block, or None
    PyObject *code
    int instruction, state


cdef class Recorder:
    cdef object __weakref__
    cdef call_entry *ring
    cdef readonly int64_t capacity, count, calls
    cdef int64_t due, tallied  # the count at the next turn, and the last call of a tally
    cdef object tally

    cdef int64_t enter(self, Program program, CallSite site) except -1
    cdef int complete(self) except -1
    cdef int turn(self) except -1
    cdef dict sums_of(self, int64_t first, int64_t last)
    cdef bint has_ended(self, int64_t sequence) noexcept nogil
    cdef int change(self, int64_t sequence, Program program) except -1
    cdef void begin(self, int64_t sequence) noexcept nogil
    cdef void end(self, int64_t sequence, int status) noexcept nogil

    @cython.final
    cdef inline call_entry *at(self, int64_t sequence) noexcept nogil:
        """The record of a call, or NULL if it was overwritten."""
        cdef call_entry *entry = &self.ring[sequence & (self.capacity - 1)]
        return entry if entry.sequence == sequence else NULL
