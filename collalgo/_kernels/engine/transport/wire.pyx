# cython: language_level=3
"""The interface of a wire: all that a transport needs of an engine between hosts.

Messages between two processes with the same tag arrive in order. No method blocks; a
request is a word that the engine sets and tests.
"""


cdef class Wire:
    """The connection of one process to an engine."""

    @property
    def one_thread(self):
        """Whether only the thread that made it may use it."""
        return False

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        """Begin to send: UNDER_WAY, or LOST if the peer is gone.

        A ``matched`` send completes only once its receive is posted.
        """
        return LOST

    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil:
        """Begin to receive at most ``nbytes`` bytes: UNDER_WAY or LOST."""
        return LOST

    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil:
        """The status of a request, and the bytes of a receive that has completed.

        Tests also drive the progress of the engine.
        """
        return LOST

    cdef void cancel(self, int64_t *request) noexcept nogil:
        """Cancel a receive; it is tested until it is no longer UNDER_WAY."""
