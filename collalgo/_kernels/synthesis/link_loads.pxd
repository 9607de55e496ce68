from libc.stdint cimport int64_t


cdef class LinkLoads:
    """The load of each link in a step, and its remaining load."""

    cdef const int64_t[::1] first, links
    cdef const double[::1] busy
    cdef double[::1] now, total, left, ready
    cdef double length, longest, until
    cdef int64_t[::1] waiting, refused
    cdef int64_t state, pairs_waiting, pairs_open

    cdef void clear(self) noexcept
    cdef void begin(self, double length) noexcept
    cdef void end_early(self) noexcept
    cdef bint fits(self, Py_ssize_t pair, double weight) noexcept
    cdef void reopen(self, Py_ssize_t pair) noexcept
    cdef void take(self, Py_ssize_t pair, double weight) noexcept
    cdef void give_back(self, Py_ssize_t pair, double weight) noexcept
    cdef void plan(self, Py_ssize_t pair, double weight) noexcept
    cdef void prepare(self, Py_ssize_t pair, double weight) noexcept
    cdef double most_left(self) noexcept
    cdef double possible_length(self, double fraction) noexcept
    cdef bint is_idle(self, double most) noexcept
    cdef void _reopen_all(self) noexcept
    cdef void _count(self, Py_ssize_t pair, int64_t transfers) noexcept
    cdef void _load(self, Py_ssize_t pair, double weight) noexcept
    cdef void _add(self, Py_ssize_t pair, double weight, double[::1] seconds) noexcept
