from libc.stdint cimport int64_t

cdef enum:
    NONE = -1  # no number: of elements, or of a message

cdef struct buffer_length:
    int64_t called  # elements, as the ranks compare them
    int64_t count, itemsize  # elements of the buffer, and bytes of each
    int64_t each  # elements of each block if they are equal, or NONE
    const int64_t *starts  # the first element of each block if not, and the last end


cdef int measure(
    buffer_length *length, int64_t count, tuple counts, int64_t shares, int64_t blocks,
    int64_t *starts
) except -1
cdef int64_t elements_of_blocks(
    const buffer_length *length, const int64_t *ends
) noexcept nogil
cdef int64_t mixed(int64_t fingerprint, int64_t number) noexcept nogil
cdef int64_t fingerprint_of(
    int64_t fingerprint, const buffer_length *length, int64_t blocks
) noexcept nogil
