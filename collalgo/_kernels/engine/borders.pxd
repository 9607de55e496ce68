from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.template_tables cimport TemplateTables

cdef enum:
    INPUT = 0  # arrays
    SCRATCH = 2  # reused by each slice


cdef class Borders(TemplateTables):
    cdef readonly int64_t scratch_bytes
    cdef int64_t *border_bytes
    cdef int64_t *origins  # of each run
    cdef int64_t *starts  # room for those of the length

    cdef void place_parts(self, const buffer_length *length) noexcept nogil
    cdef void place_borders(self, const buffer_length *length) noexcept nogil
    cdef void place_runs(self) noexcept nogil
