from libc.stdint cimport int64_t


cdef class Tagged:
    cdef readonly int64_t tag
    cdef int64_t ticket
    cdef Tagged next


cdef class ByTag:
    cdef list first_items, last_items  # of each bucket
    cdef int64_t count

    cdef void add(self, Tagged item)
    cdef Tagged first(self, int64_t tag)
    cdef bint remove(self, Tagged item)
    cdef list items(self)
    cdef list clear(self)
