cimport numpy as cnp

from collalgo._kernels.comm.reducing cimport Reducing


cdef class PlacedCall:
    cdef Reducing runner
    cdef str name
    cdef object call, op, out, result
    cdef bint is_index, is_scattered, is_exscan
    cdef cnp.ndarray values, indices, pairs, found
    cdef list targets

    cdef int read(self, buf) except -1
    cdef int write_to(self, buf, out) except -1
    cdef cnp.ndarray target(self, out, cnp.ndarray like, str word)
    cdef object results(self, buf)


cdef bint may_find_place(buf, str op) except -1


cdef inline bint finds_place(buf, op) except -1:
    """Whether an op finds places in plain arrays: a fast check for all others."""
    return type(op) is str and len(<str>op) == 6 and may_find_place(buf, <str>op)
