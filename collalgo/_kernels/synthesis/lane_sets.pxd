from libc.stdint cimport int64_t


cdef class LaneSets:
    """The sets of transfers on the lanes of a step."""

    cdef const int64_t[::1] hub, spoke
    cdef int64_t[::1] lane, length_of, hits
    cdef int64_t[:, :, ::1] set_of
    cdef int64_t sets, first_set

    cdef void begin(self) noexcept
    cdef void forget(self) noexcept
    cdef Py_ssize_t put(self, int64_t[::1] chosen, Py_ssize_t count) noexcept
    cdef Py_ssize_t _largest_on(
        self,
        Py_ssize_t lane,
        const int64_t[::1] chosen,
        Py_ssize_t count,
        int64_t *largest,
    ) noexcept
    cdef Py_ssize_t _move(
        self,
        Py_ssize_t lane,
        int64_t[::1] chosen,
        Py_ssize_t count,
        int64_t present,
        int64_t becomes,
    ) noexcept
    cdef int64_t _set_on(self, Py_ssize_t lane, Py_ssize_t i) noexcept
