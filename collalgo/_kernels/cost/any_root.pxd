from libc.stdint cimport int32_t

from collalgo._kernels.cost.arborescence cimport Arborescence


cdef class AnyRoot:
    """Memory for the root of the cheapest arborescence of a dense graph."""

    cdef Py_ssize_t size
    cdef double[:, ::1] cost
    cdef int32_t[::1] parents
    cdef Arborescence arborescence

    cdef Py_ssize_t of(self, const double[:, ::1] cost) noexcept
