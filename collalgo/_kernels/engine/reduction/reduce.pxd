from libc.stdint cimport int64_t


cdef extern from "reduce.h":
    ctypedef struct float8_tables:
        float decode[256]
        unsigned char encode[65536]
    ctypedef void (*reduce_fn)(
        void *dst, const void *const *inputs, int64_t n, int64_t count,
        int64_t divisor, const float8_tables *tables
    ) noexcept nogil


cdef class Reduction:
    """One dtype and op, ready to be called without the GIL."""
    cdef reduce_fn function
    cdef const float8_tables *tables
    cdef object owner
    cdef readonly int64_t itemsize
