# cython: language_level=3, freethreading_compatible=True
"""The abstract wire: what an engine between hosts must be able to do, no more.

Messages between two processes with the same tag arrive in order. Nothing here blocks; a
request is a word that the engine fills and tests.
"""


cdef class Wire:
    """One process's end of an engine."""

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        """Begin to send: UNDER_WAY, or LOST if that cannot be.

        If it is to be ``matched``, it is done only when a receive for it is posted.
        """
        return LOST

    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil:
        """Begin to receive so many bytes at most: UNDER_WAY or LOST."""
        return LOST

    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil:
        """What has become of a request, and the bytes that a receive has got.

        To ask is also what lets an engine go on.
        """
        return LOST

    cdef void cancel(self, int64_t *request) noexcept nogil:
        """Give a receive up; it is still to be tested until it is not UNDER_WAY."""
