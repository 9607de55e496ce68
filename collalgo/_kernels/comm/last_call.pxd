cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_kind cimport CallKind


@cython.final
cdef class LastCall:
    cdef object collective, dtype, op, algorithm, reproducible
    cdef int64_t root
    cdef bint has_counts
    cdef CallKind kind


cdef inline bint is_like(
    LastCall last, str collective, dtype, op, int64_t root, algorithm, counts,
    reproducible
) noexcept:
    """Whether the last call had these arguments, the very same objects."""
    return (
        last is not None and last.collective is collective and last.dtype is dtype
        and last.op is op and last.root == root and last.algorithm is algorithm
        and last.has_counts == (counts is not None)
        and last.reproducible is reproducible
    )
