# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""XXH64, a hash that finds differences by accident as fast as memory is read."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    // The primes of the specification.
    static const uint64_t P1 = 0x9E3779B185EBCA87ull, P2 = 0xC2B2AE3D27D4EB4Full,
        P3 = 0x165667B19E3779F9ull, P4 = 0x85EBCA77C2B2AE63ull,
        P5 = 0x27D4EB2F165667C5ull;
    """
    const uint64_t P1, P2, P3, P4, P5

# Bytes of a stripe, of which each of four lanes takes a word.
cdef enum:
    STRIPE = 32


cdef inline uint64_t rotated(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline uint64_t read64(const uint8_t *place) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, place, 8)
    return word


cdef inline uint64_t stirred(uint64_t lane, uint64_t word) noexcept nogil:
    """A lane after another word of the input."""
    return rotated(lane + word * P2, 31) * P1


cdef inline uint64_t merged(uint64_t found, uint64_t lane) noexcept nogil:
    return (found ^ stirred(0, lane)) * P1 + P4


cdef uint64_t of_stripes(const uint8_t *place, Py_ssize_t count) noexcept nogil:
    """The hash of one or more whole stripes."""
    cdef uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1
    while count:
        a = stirred(a, read64(place))
        b = stirred(b, read64(place + 8))
        c = stirred(c, read64(place + 16))
        d = stirred(d, read64(place + 24))
        place, count = place + STRIPE, count - 1
    cdef uint64_t found = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18)
    return merged(merged(merged(merged(found, a), b), c), d)


cdef uint64_t with_rest(
    uint64_t found, const uint8_t *place, Py_ssize_t left
) noexcept nogil:
    """The hash with the bytes after the last whole stripe."""
    cdef uint32_t half
    while left >= 8:
        found = rotated(found ^ stirred(0, read64(place)), 27) * P1 + P4
        place, left = place + 8, left - 8
    if left >= 4:
        memcpy(&half, place, 4)
        found = rotated(found ^ half * P1, 23) * P2 + P3
        place, left = place + 4, left - 4
    while left:
        found = rotated(found ^ place[0] * P5, 11) * P1
        place, left = place + 1, left - 1
    found = (found ^ (found >> 33)) * P2
    found = (found ^ (found >> 29)) * P3
    return found ^ (found >> 32)


def xxh64(const uint8_t[::1] data not None):
    """The XXH64 of some bytes with seed 0, as an integer; without the GIL."""
    cdef Py_ssize_t length = data.shape[0], stripes = length // STRIPE
    cdef const uint8_t *place = &data[0] if length else NULL
    cdef uint64_t found
    with nogil:
        found = of_stripes(place, stripes) if stripes else P5
        found = with_rest(
            found + <uint64_t> length, place + stripes * STRIPE, length % STRIPE
        )
    return found
