# cython: language_level=3, freethreading_compatible=True
"""The abstract transport: what the engine needs to run a plan, no more.

A channel is a pair of ranks and a lane; seen from one rank it has the number
``lane * size + peer``. Messages on a channel arrive in order, cut into segments of any
length. Nothing here blocks: what cannot be done now is tried again after a pause.
"""


#: How many channels there are between two ranks, one for each schedule run together.
LANES = LANE_LIMIT


cdef dict as_dict(const call_record *call):
    """What a rank called, by numbers, and the algorithm."""
    return {
        "sequence": call.sequence, "fingerprint": call.fingerprint,
        "collective": call.collective, "dtype": call.dtype, "op": call.op,
        "root": call.root, "count": call.count,
        "algorithm": (<bytes><const char *>call.algorithm).decode(errors="replace"),
    }


cdef class Transport:
    """One rank's end of the channels to all the others."""

    cdef int enter(self, const call_record *call, double timeout) noexcept nogil:
        """Begin a call: GO_ON, or why it cannot be made."""
        return CLOSED

    cdef void leave(self) noexcept nogil:
        """The call has ended well."""

    cdef int outlook(self, int64_t rank) noexcept nogil:
        """What is to be expected of a rank; not to be asked during a call."""
        return QUIET

    cdef void begin_step(self, int64_t posts, bint brief) noexcept nogil:
        """Begin a step that sends so many posts; brief if few bytes go in this call."""

    cdef bint post(
        self, const int64_t *channels, int64_t readers, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Send a whole message of this step at once; False if that cannot be now.

        To be asked for no more bytes than are sent ``whole``, and of each post once;
        what cannot be sent so is reserved and committed.
        """
        return False

    cdef char *reserve(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t left,
        int64_t *room
    ) noexcept nogil:
        """Where to write the next segment of a post of this step, or NULL if not now.

        ``left`` bytes are left of the post's message, for which there is ``room`` for
        some; what is written goes to all the readers.
        """
        return NULL

    cdef void fill(
        self, const int64_t *channels, char *slot, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Write a part of a segment where it was reserved for these channels."""
        copy_bytes(slot, data, nbytes)

    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil:
        """Send the segment that was reserved last."""

    cdef bint lend(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil:
        """Let the readers read the next bytes of a post's message where they are.

        False if they cannot, or not now. The bytes must not change while they are lent,
        which is waited for if they are the ``last`` in a call. Whether readers are to
        ``share`` memory that they have mapped, and those that only copy to ``fetch`` what
        they have not, are words of ``transport.h``.
        """
        return False

    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil:
        """Let the sender write a message where it belongs, from now on, if it can.

        The message is that of this number on its channel in this call. It may come in
        another way all the same.
        """

    cdef int put(self, int64_t post, const message_part *part) noexcept nogil:
        """Write the next bytes of a post's message where they belong: WRITTEN.

        Or NOT_WANTED if not all readers have offered that, and WANTED_LATER if they may
        do so yet.
        """
        return NOT_WANTED

    cdef bint aim(self, const message_part *part, char **targets) noexcept nogil:
        """Find where a part of a message belongs, for each of its readers.

        False if it cannot or had better not be written there before it is :meth:`put`.
        """
        return False

    cdef bint is_needed(self) noexcept nogil:
        """Whether somebody may still read what was lent, or has yet to be sent it."""
        return False

    cdef bint peek(
        self, const int64_t *channels, int64_t senders, segment_state *segments
    ) noexcept nogil:
        """Look for the next segments on channels, where there is no data yet.

        Whether all have come. They are valid until released; what is ``REMOTE`` can be
        read by nothing but :meth:`fetch`.
        """
        return False

    cdef int fetch(
        self, int64_t channel, char *target, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Copy from a remote segment: GO_ON, or STOP if the sender is gone."""
        return STOP

    cdef void release(self, const int64_t *channels, int64_t senders) noexcept nogil:
        """The segments last peeked at have been consumed."""

    cdef void give_way(self, clockid_t caller) noexcept nogil:
        """From now on wait so that a thread can compute, by its clock; or for NOBODY."""

    cdef int pause(self, int64_t *idle) noexcept nogil:
        """Wait politely; ``idle`` counts the pauses since something could be done."""
        return STOP

    cdef void resume(self) noexcept nogil:
        """Something could be done again."""
