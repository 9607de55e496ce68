from libc.stdint cimport int64_t

cdef void merge(int64_t[::1] ready, Py_ssize_t count, int64_t[::1] more) noexcept
