from libc.stdint cimport int32_t


cdef enum:
    ROOT = -1  #: the parent of a root
    OUTSIDE = -2  #: the parent of a rank that is not in a tree


cdef class Arborescence:
    """Memory for the cheapest arborescence of a dense graph."""

    cdef Py_ssize_t size, used
    cdef double[:, ::1] enter
    cdef int32_t[:, ::1] entered
    cdef double[::1] best
    cdef int32_t[::1] source, into, group, above, first_part, next_part, path, waiting
    cdef unsigned char[::1] on_path

    cdef void find(
        self, const double[:, ::1] cost, Py_ssize_t root, int32_t[::1] parents
    ) noexcept
    cdef void search(self, const double[:, ::1] cost, Py_ssize_t root) noexcept
    cdef void path_to(
        self, Py_ssize_t root, Py_ssize_t end, int32_t[::1] parents
    ) noexcept
    cdef void _reset(self, const double[:, ::1] cost, Py_ssize_t root) noexcept
    cdef Py_ssize_t _contract(self) noexcept
    cdef Py_ssize_t _cheapest_entry(self, Py_ssize_t node) noexcept
    cdef Py_ssize_t _merge(self, Py_ssize_t length, Py_ssize_t start) noexcept
    cdef void _enter_from(
        self, Py_ssize_t node, Py_ssize_t part, double paid
    ) noexcept
    cdef Py_ssize_t _open(self, Py_ssize_t vertex, Py_ssize_t count) noexcept
