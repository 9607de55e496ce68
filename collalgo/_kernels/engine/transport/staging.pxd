from libc.stdint cimport int64_t


cdef char *staging_for(int64_t nbytes) noexcept nogil
cdef void return_staging(char *block, int64_t nbytes) noexcept nogil
