from libc.stdint cimport int64_t
from posix.time cimport clockid_t


cdef extern from "transport.h":
    enum: LANE_LIMIT "LANES"
    enum: CACHE_LINE
    enum: NAME_BYTES
    enum: GO_ON
    enum: STOP
    enum: SIGNALS
    enum: CLOSED
    enum: FORKED
    enum: NO_CALLER
    enum: NEAR
    enum: REMOTE
    enum: DELIVERED
    enum: ANNOUNCED
    enum: NOT_CARRIED
    enum: STAGED
    enum: SHARED_IF_NEAR
    enum: SHARED_UNLESS_FAR
    enum: SHARED
    enum: OF_NEXT "PART_OF_NEXT"
    enum: COUNTED "WHOLE_CALL"
    enum: OF_LAST "PART_OF_LAST"
    enum: NOT_OFFERED
    enum: OFFER_PENDING
    enum: WRITTEN
    enum: QUIET
    enum: CALLED
    enum: LEFT
    ctypedef struct call_record:
        int64_t sequence, fingerprint, collective, dtype, op, root, count
        int64_t number, passed
        char algorithm[NAME_BYTES]
    ctypedef struct segment_state:
        const char *data
        int64_t left, location
    ctypedef struct message_part:
        const int64_t *channels
        const int64_t *numbers
        int64_t readers
        const char *data
        int64_t nbytes, done, whole, is_result, past_caches, is_written
    ctypedef struct step_time:
        int64_t call, slice, step, begun, ended
    ctypedef struct step_log:
        step_time *steps
        int64_t capacity, count, call


cdef extern from "copy.h" nogil:
    void copy_bytes(void *target, const void *source, int64_t nbytes)
    void copy_in_order(void *target, const void *source, int64_t nbytes)
    void stream_bytes(void *target, const void *source, int64_t nbytes)


cdef dict as_dict(const call_record *call)
cdef call_record as_record(dict call)


cdef class Transport:
    cdef readonly int64_t rank, size
    cdef bint busy
    cdef bint in_use   # whether an engine still uses the arrays of the last call
    cdef bint carries  # whether :meth:`carry` may carry messages
    cdef readonly unsigned long handler  # the thread whose signals a call handles, or 0
    cdef readonly bint lacks_cores  # whether the ranks use all cores
    cdef step_log *log  # or NULL
    cdef int64_t patience  # pauses before a call releases the GIL
    cdef int64_t whole     # bytes of the longest message of `post`

    cdef int enter(self, const call_record *call, double timeout) noexcept nogil
    cdef void leave(self) noexcept nogil
    cdef int peer_state(self, int64_t rank) noexcept nogil
    cdef bint has_room(self, int64_t rank, int64_t messages) noexcept nogil
    cdef void begin_wait(self) noexcept nogil
    cdef void begin_step(self, int64_t posts, bint brief) noexcept nogil
    cdef bint post(
        self, const int64_t *channels, int64_t readers, const char *data, int64_t nbytes
    ) noexcept nogil
    cdef char *reserve(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t left,
        int64_t *room
    ) noexcept nogil
    cdef void fill(
        self, const int64_t *channels, char *slot, const char *data, int64_t nbytes
    ) noexcept nogil
    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil
    cdef bint send_direct(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil
    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil
    cdef int put(self, int64_t post, const message_part *part) noexcept nogil
    cdef bint locate(self, const message_part *part, char **targets) noexcept nogil
    cdef int64_t carry(
        self, int64_t channel, const char *data, int64_t nbytes, int64_t most
    ) noexcept nogil
    cdef void accept(
        self, int64_t channel, char *target, int64_t nbytes, int64_t room
    ) noexcept nogil
    cdef bint forget(self) noexcept nogil
    cdef bint is_needed(self) noexcept nogil
    cdef bint peek(
        self, const int64_t *channels, int64_t senders, segment_state *segments
    ) noexcept nogil
    cdef int fetch(
        self, int64_t channel, char *target, const char *data, int64_t nbytes
    ) noexcept nogil
    cdef void release(self, const int64_t *channels, int64_t senders) noexcept nogil
    cdef void yield_core(self, clockid_t caller) noexcept nogil
    cdef int pause(self, int64_t *idle) noexcept nogil
    cdef void resume(self) noexcept nogil
