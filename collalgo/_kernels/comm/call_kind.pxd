cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.program cimport Program


@cython.final
cdef class SharedRange:
    cdef readonly double least, limit
    cdef object make
    cdef list spare

    cdef Program take(self)
    cdef int put_back(self, Program program) except -1


@cython.final
cdef class SizeRange:
    cdef double least, limit
    cdef SharedRange shared
    cdef list programs
    cdef dict named  # of the library, by name and whether the user counts them

    cdef int release(self) except -1
    cdef int make_idle(self, const buffer_length *length) except -1
    cdef Program program(self, const buffer_length *length, tuple counts)
    cdef Program program_named(self, str name, int counted, bint is_part)


@cython.final
cdef class CallKind:
    cdef readonly object call
    cdef object find_range, kept
    cdef int64_t itemsize, shares, blocks, buffers
    cdef int64_t *starts  # room for those of a length
    cdef list ranges
    cdef SizeRange current  # of the latest call
    cdef Program latest

    cdef Program find_program(self, int64_t count, tuple counts)
    cdef int find_length(
        self, buffer_length *length, int64_t count, tuple counts
    ) except -1
    cdef SizeRange range_of(self, const buffer_length *length, tuple counts)

    cdef inline Program program(self, int64_t count, tuple counts):
        """The program of a call; it holds until the program of the next call is requested."""
        if counts is None and self.latest is not None and self.latest.called == count:
            return self.latest
        return self.find_program(count, counts)
