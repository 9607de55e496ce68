cimport numpy as cnp

from collalgo._kernels.comm.reducing cimport Reducing


cdef class ArgReduction:
    cdef Reducing runner
    cdef str name
    cdef object call, op, out, result
    cdef bint is_index, is_scattered, is_exscan
    cdef cnp.ndarray values, indices, pairs, found
    cdef list targets

    cdef int read(self, buf) except -1
    cdef cnp.ndarray array_on_host(self, given, str caller)
    cdef int write_to(self, buf, out) except -1
    cdef int check_targets(self, str word) except -1
    cdef cnp.ndarray target(self, out, cnp.ndarray like, str word, str of_like)
    cdef object results(self, buf)


cdef bint has_arg_op(buf, op) except -1


cdef inline bint is_arg_reduction(buf, op) except -1:
    """Whether plain arrays are reduced to ranks or indices: a fast check for others."""
    if type(op) is str and len(<str>op) != 6:
        return False
    return has_arg_op(buf, op)
