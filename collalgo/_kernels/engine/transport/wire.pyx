# cython: language_level=3
"""The interface of a wire: all that a transport needs of an engine between hosts.

Messages between two processes with the same tag arrive in order. No method blocks; a
request is a word that the engine sets and tests.
"""

import os


cdef poll_type poll_used = NULL
cdef void *engine_used = NULL


cdef void set_poll(poll_type poll, void *engine) noexcept nogil:
    """Set how the engine of this process is polled."""
    global poll_used, engine_used
    engine_used = engine
    poll_used = poll


cdef void forget_poll(void *engine) noexcept nogil:
    """Poll an engine that ends no more."""
    global poll_used
    if engine_used == engine:
        poll_used = NULL


cdef void poll_engine() noexcept nogil:
    """Let the engine of this process send what it has taken, as other calls wait.

    An engine may keep a message until it is polled: where a socket is full, or while a
    connection is established. Its reader may be who the others wait for.
    """
    cdef poll_type poll = poll_used
    if poll != NULL:
        poll(engine_used)


def _forget_inherited():
    """In a forked child, poll no more: the engine and its sockets are the parent's."""
    forget_poll(engine_used)


os.register_at_fork(after_in_child=_forget_inherited)


def poll():
    """The same, for waits in Python."""
    with nogil:
        poll_engine()


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
