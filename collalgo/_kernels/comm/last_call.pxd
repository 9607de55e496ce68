cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_kind cimport CallKind


@cython.final
cdef class LastCall:
    cdef object collective, dtype, op, algorithm
    cdef int64_t root
    cdef bint has_counts, reproducible
    cdef CallKind kind

    cdef inline bint has(
        self, dtype, op, int64_t root, algorithm, bint has_counts, bint reproducible
    ) noexcept:
        """Whether it had these arguments, the very same objects."""
        return (
            self.dtype is dtype and self.op is op
            and self.root == root and self.algorithm is algorithm
            and self.has_counts == has_counts
            and self.reproducible == reproducible
        )
