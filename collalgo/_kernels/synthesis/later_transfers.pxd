from libc.stdint cimport int64_t


cdef class LaterTransfers:
    """Transfers that wait for no other, but for their time."""

    cdef int64_t[::1] transfers
    cdef const double[::1] times
    cdef Py_ssize_t first

    cdef bint left(self) noexcept
    cdef Py_ssize_t due(self, double until, bint one) noexcept
