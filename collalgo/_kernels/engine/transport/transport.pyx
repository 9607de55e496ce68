# cython: language_level=3
"""The interface of a transport for the engine, which runs plans.

A channel is a pair of ranks and a lane; at one rank its number is ``lane * size + peer``.
The messages of a channel arrive in order, cut into segments of any length; different
channels are independent. No method blocks: the engine polls, and calls :meth:`pause`
after a poll without progress.

A call runs ``enter``, its steps, and ``leave``. In each step, the engine calls
``begin_step``, sends its posts and receives:

- A post is sent through the memory of the transport: :meth:`reserve`, :meth:`fill`,
  :meth:`commit` for each segment. Every transport has these.
- A receive polls :meth:`peek`, reads or reduces the segment, and calls :meth:`release`.
  Every transport has these.
- A transport may have shorter paths: :meth:`post` for whole short messages,
  :meth:`send_direct` with :meth:`fetch`, :meth:`offer` with :meth:`put` and
  :meth:`locate`, and :meth:`carry` with :meth:`accept` between hosts. The defaults of
  this class refuse, and the engine then uses staging.

A failure (timeout, death or exit of a peer, mismatch) is found by :meth:`pause`, which
returns STOP. The Python side of the interface describes it:
:class:`collalgo.engine.transport.interface.RankTransport`.
"""

from libc.string cimport memset, strncpy

#: The number of lanes between two ranks, one for each schedule run together.
LANES = LANE_LIMIT

#: Whether the user counts a call of the library, or it is a part of another call.
PART_OF_NEXT, WHOLE_CALL, PART_OF_LAST = OF_NEXT, COUNTED, OF_LAST


cdef dict as_dict(const call_record *call):
    """The arguments of a call, as numbers, and the algorithm."""
    return {
        "sequence": call.sequence, "fingerprint": call.fingerprint,
        "collective": call.collective, "dtype": call.dtype, "op": call.op,
        "root": call.root, "count": call.count, "number": call.number,
        "passed": call.passed,
        "algorithm": (<bytes><const char *>call.algorithm).decode(errors="replace"),
    }


cdef call_record as_record(dict call):
    """The same as a record."""
    cdef call_record record
    cdef bytes algorithm = call["algorithm"].encode()
    memset(&record, 0, sizeof(record))
    record.sequence, record.fingerprint = call["sequence"], call["fingerprint"]
    record.collective, record.dtype, record.op = (
        call["collective"], call["dtype"], call["op"]
    )
    record.root, record.count = call["root"], call["count"]
    record.number, record.passed = call["number"], call["passed"]
    strncpy(record.algorithm, algorithm, NAME_BYTES - 1)
    return record


cdef class Transport:
    """The channels of one rank to all others."""

    @property
    def device_messages(self):
        """The messages between the memory of devices, if an engine can carry them."""
        return None

    cdef int enter(self, const call_record *call, double timeout) noexcept nogil:
        """Begin a call: GO_ON, or the reason why it cannot be made.

        A negative timeout means none; the record is compared with those of the peers.
        """
        return CLOSED

    cdef void leave(self) noexcept nogil:
        """End a call that has succeeded."""

    cdef int peer_state(self, int64_t rank) noexcept nogil:
        """The state of a rank between two calls: QUIET, CALLED or LEFT."""
        return QUIET

    cdef bint has_room(self, int64_t rank, int64_t messages) noexcept nogil:
        """Whether short messages to a rank can be sent between calls without a wait."""
        return False

    cdef void begin_wait(self) noexcept nogil:
        """Begin a wait between calls, for a change of :meth:`peer_state`."""

    cdef void begin_step(self, int64_t posts, bint brief) noexcept nogil:
        """Begin a step with ``posts`` posts; brief if the call is not pipelined."""

    cdef bint post(
        self, const int64_t *channels, int64_t readers, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Send a whole message to all readers at once; False if that is impossible now.

        Called once for each post, with at most ``whole`` bytes; a post that cannot be
        sent this way is reserved and committed.
        """
        return False

    cdef char *reserve(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t left,
        int64_t *room
    ) noexcept nogil:
        """The memory for the next segment of a post of this step, or NULL if not now.

        The message has ``left`` bytes left; ``room`` takes the bytes that fit into the
        memory. The segment is sent to all readers.
        """
        return NULL

    cdef void fill(
        self, const int64_t *channels, char *slot, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Write a part of a segment to the memory that was reserved for it."""
        copy_bytes(slot, data, nbytes)

    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil:
        """Send the segment that was reserved last."""

    cdef bint send_direct(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil:
        """Send the next bytes of a post without a copy: the readers read ``data``.

        False if that is impossible now. The bytes must not change until they are
        read; :meth:`is_needed` waits for that if they are the ``last`` of a call. The
        policies ``share``, for memory that the readers have mapped, and ``fetch``, for
        other memory of this process, are values of ``transport.h``.
        """
        return False

    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil:
        """Offer the sender the destination of a message, by its number in this call.

        The sender may write there from now on, or send the message in any other way.
        """

    cdef int put(self, int64_t post, const message_part *part) noexcept nogil:
        """Write the next bytes of a post to the destinations that its readers offer.

        Returns WRITTEN, NOT_OFFERED if a reader does not offer its memory, or
        OFFER_PENDING if it may do so yet.
        """
        return NOT_OFFERED

    cdef bint locate(self, const message_part *part, char **targets) noexcept nogil:
        """Find the destinations of a part of a message, for a reduction into them.

        False if the part is to be written by :meth:`put` only.
        """
        return False

    cdef int64_t carry(
        self, int64_t channel, const char *data, int64_t nbytes, int64_t most
    ) noexcept nogil:
        """Carry the next ``nbytes`` bytes of a post to another host without a copy.

        Returns how many of them need not stay unchanged any longer, 0 if none yet, or
        NOT_CARRIED. They are carried in messages of at most ``most`` bytes, several
        at once; called with the rest of the same bytes until all are done.
        """
        return NOT_CARRIED

    cdef void accept(
        self, int64_t channel, char *target, int64_t nbytes, int64_t room
    ) noexcept nogil:
        """Receive a segment that is ``ANNOUNCED``: into ``target``, or memory of its own.

        If there is a target, the segment is ``DELIVERED`` later. The next segments of
        the same call may arrive likewise, without being accepted, up to ``room`` bytes.
        """

    cdef bint forget(self) noexcept nogil:
        """Forget the messages of a failed call: whether its arrays are in use still."""
        return False

    cdef bint is_needed(self) noexcept nogil:
        """Whether a peer has not received all bytes that this rank has sent."""
        return False

    cdef bint peek(
        self, const int64_t *channels, int64_t senders, segment_state *segments
    ) noexcept nogil:
        """Look for the next segment on each channel whose state has no data yet.

        Returns whether all have arrived. They are valid until released; a segment that is
        ``REMOTE`` is read by :meth:`fetch`.
        """
        return False

    cdef int fetch(
        self, int64_t channel, char *target, const char *data, int64_t nbytes
    ) noexcept nogil:
        """Copy from a remote segment: GO_ON, or STOP if the sender has left."""
        return STOP

    cdef void release(self, const int64_t *channels, int64_t senders) noexcept nogil:
        """Consume the segments last peeked at; their memory may be reused."""

    cdef void yield_core(self, clockid_t caller) noexcept nogil:
        """Yield the core to the thread with this clock while it computes; or NO_CALLER."""

    cdef int pause(self, int64_t *idle) noexcept nogil:
        """Pause once; ``idle`` counts the pauses since the last progress.

        Returns GO_ON, SIGNALS at intervals for the engine to check signals, or STOP if the
        call has failed.
        """
        return STOP

    cdef void resume(self) noexcept nogil:
        """Reset the pauses after progress."""
