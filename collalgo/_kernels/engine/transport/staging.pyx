# cython: language_level=3
"""The memory of messages of other hosts that are reduced from it.

All channels of the process share it, so that idle ones keep none.
"""

from libc.stdint cimport int64_t

cdef extern from "staging.h" nogil:
    char *staging_take(int64_t nbytes)
    void staging_return(char *block, int64_t nbytes)


cdef char *staging_for(int64_t nbytes) noexcept nogil:
    """Memory for a message, or NULL without memory."""
    return staging_take(nbytes)


cdef void return_staging(char *block, int64_t nbytes) noexcept nogil:
    """Return the memory that was taken for a message of this length."""
    staging_return(block, nbytes)
