cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.comm.rooted cimport Rooted


cdef class Combining(Rooted):
    cdef tuple converted(
        self, op, cnp.ndarray source, target, str caller, algorithm, reproducible
    )
    cdef int end_single(self, op, cnp.ndarray target, str caller) except -1
    cdef int convert_back(self, way, inner, target) except -1
    cdef int combine(
        self, str name, cnp.ndarray source, cnp.ndarray target, timeout, algorithm, op,
        int64_t root, counts, reproducible
    ) except -1
    cdef int gather_and_combine(
        self, call, cnp.ndarray source, cnp.ndarray target, timeout
    ) except -1


cdef check_result(cnp.ndarray target, str caller)
