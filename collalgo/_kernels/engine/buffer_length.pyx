# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The length of a buffer and of its blocks, from the arguments of a call."""

from libc.stdint cimport int64_t, uint64_t


cdef int64_t read_counts(tuple counts, int64_t *starts) except -2:
    """Write the first element of each block, and the last end.

    Returns the elements of each block if all are equal, or NONE.
    """
    cdef int64_t i, count, each = NONE
    starts[0] = 0
    for i in range(len(counts)):
        count = counts[i]
        starts[i + 1] = starts[i] + count
        if i == 0:
            each = count
        elif count != each:
            each = NONE
    return each


cdef int measure(
    buffer_length *length, int64_t count, tuple counts, int64_t shares, int64_t blocks,
    int64_t *starts
) except -1:
    """Set all fields of a length but the bytes of an element.

    Parameters
    ----------
    count
        The elements that a rank passes; ignored if there are counts.
    counts
        The elements of each block, or None.
    shares
        The number of equal blocks of the elements of a rank; 0 if borders are free.
    blocks
        The number of blocks of the buffer.
    starts
        Room for a number more than blocks.
    """
    length.called = length.count = count
    length.each, length.starts = NONE, NULL
    if counts is not None:
        if len(counts) != blocks:
            raise ValueError(
                f"there are {len(counts)} counts for {blocks} blocks; pass one for each"
            )
        length.each = read_counts(counts, starts)
        length.called = length.count = starts[blocks]
        if length.each == NONE:
            length.starts = starts
    elif shares:
        length.each = count // shares
        length.count = length.each * blocks
    return 0


cdef int64_t elements_of_blocks(
    const buffer_length *length, const int64_t *ends
) noexcept nogil:
    """The elements of the blocks from a first to an end; all of a length without any."""
    if ends[1] == 0:
        return length.called
    if length.starts == NULL:
        return length.each * (ends[1] - ends[0])
    return length.starts[ends[1]] - length.starts[ends[0]]


cdef int64_t mixed(int64_t fingerprint, int64_t number) noexcept nogil:
    """A fingerprint with a further number: different numbers give different fingerprints."""
    cdef uint64_t bits = <uint64_t>fingerprint ^ <uint64_t>number
    bits *= <uint64_t>0x9E3779B97F4A7C15
    bits ^= bits >> 29
    bits *= <uint64_t>0xBF58476D1CE4E5B9
    return <int64_t>(bits ^ (bits >> 32))


cdef int64_t fingerprint_of(
    int64_t fingerprint, const buffer_length *length, int64_t blocks
) noexcept nogil:
    """The fingerprint of a kind of calls with a length, which ranks compare."""
    cdef int64_t i
    fingerprint = mixed(mixed(fingerprint, length.called), length.each)
    if length.starts != NULL:
        for i in range(blocks):
            fingerprint = mixed(fingerprint, length.starts[i + 1])
    return fingerprint
