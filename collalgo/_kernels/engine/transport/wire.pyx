# cython: language_level=3
"""The interface of a wire: the engine between hosts, for a transport.

Messages between two processes with the same tag arrive in order. No method blocks; a
request is a word that the engine sets and tests.
"""

from libc.stdint cimport int32_t

from collalgo._kernels.engine.transport.segment cimport forks


cdef enum:  # measured with MPICH over TCP
    SHORTEST = (1 << 16) + 1
    LONGEST = 1 << 21

cdef poll_type poll_used = NULL
cdef void *engine_used = NULL
cdef int32_t generation = 0  # the forks before, at which the engine was set


cdef void set_poll(poll_type poll, void *engine) noexcept nogil:
    """Set how the engine of this process is polled."""
    global poll_used, engine_used, generation
    engine_used = engine
    generation = forks
    poll_used = poll


cdef void forget_poll(void *engine) noexcept nogil:
    """Stop polling this engine, before its end."""
    global poll_used
    if engine_used == engine:
        poll_used = NULL


cdef bint is_polled() noexcept nogil:
    """Whether this process has an engine to poll."""
    return poll_used != NULL and generation == forks


cdef void poll_engine() noexcept nogil:
    """Poll the engine of this process, so that it sends messages which it keeps.

    An engine may keep a message until it is polled: where a socket is full, or while a
    connection is established. Other ranks may wait for the receiver of that message. A
    forked child does not poll: the engine and its sockets belong to its parent.
    """
    cdef poll_type poll = poll_used
    if is_polled():
        poll(engine_used)


def poll():
    """The same, for waits in Python."""
    with nogil:
        poll_engine()


cdef class Wire:
    """The connection of one process to an engine.

    Attributes
    ----------
    is_cuda_aware : bool
        Whether the engine takes memory of CUDA devices.
    all_have_left : bool
        Whether no process waits for another, so that at the end nothing is sent.
    shortest, longest : int
        The bytes of the messages that the engine carries fast: a shorter one is copied
        into packets, a longer one is carried in parts.
    longest_staged : int
        The least bytes above which a message is carried in parts that is reduced, or
        replaces what is still sent, and is staged until then; 0 for those of the call.
    """

    def __cinit__(self, *_args, **_options):
        self.shortest, self.longest, self.longest_staged = SHORTEST, LONGEST, 0

    @property
    def one_thread(self):
        """Whether only the thread that made it may use it."""
        return False

    def has_lost(self, int64_t peer):
        """Whether the engine can no longer reach a peer."""
        return self.lost != NULL and bool(self.lost[peer])

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        """Begin to send: UNDER_WAY, or LOST if the peer is lost.

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

    cdef void abandon(self, int64_t *request) noexcept nogil:
        """Leave a send to the engine, which keeps its data; it is not tested again."""
