# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Transport between the ranks of one host: processes or threads, by the same code.

The mechanism is C (``shared_memory.h``); this module tells Python what happened.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset
from posix.time cimport clockid_t

from collalgo._kernels.engine.transport.endpoint cimport (
    endpoint_aim,
    endpoint_begin_step,
    endpoint_commit,
    endpoint_crowd,
    endpoint_enter,
    endpoint_exit,
    endpoint_fence,
    endpoint_fetch,
    endpoint_free,
    endpoint_give_way,
    endpoint_is_lent,
    endpoint_leave,
    endpoint_lend,
    endpoint_new,
    endpoint_offer,
    endpoint_outlook,
    endpoint_pause,
    endpoint_peek,
    endpoint_post,
    endpoint_put,
    endpoint_release,
    endpoint_reserve,
    endpoint_resume,
    header,
    is_gone,
    known_failure,
    report,
    stage,
)
from collalgo._kernels.engine.transport.segment cimport (
    CALLS,
    FAILURE_ELSEWHERE,
    FAILURE_MISMATCH,
    FAILURE_PEER,
    FAILURE_TIMEOUT,
    MISSING,
    RANK_CLOSED,
    RANK_FAILED,
    Segment,
    forks,
    rank_header,
    world_failure,
)
from collalgo._kernels.engine.transport.transport cimport (
    CALLED,
    CLOSED,
    FORKED,
    LANE_LIMIT,
    Transport,
    as_dict,
    call_record,
    message_part,
    segment_state,
)

from collalgo._kernels.engine.transport.processes import are_numbered_here, may_read

FAILURES = {
    FAILURE_MISMATCH: "mismatch", FAILURE_PEER: "peer", FAILURE_TIMEOUT: "timeout",
    FAILURE_ELSEWHERE: "elsewhere",
}

cdef enum:
    PATIENCE = 100  # pauses, of about 3 microseconds: as long as a short call takes
    NAP = 100000    # nanoseconds: engines must be asked whether anything has come


cdef class SharedMemory(Transport):
    """One rank's end of a segment.

    Parameters
    ----------
    segment : Segment
        The memory of the world.
    rank, size : int
        Which of how many ranks this is.
    waiting : Turns
        How long to wait before going to sleep.
    giving_way : Turns
        The same while the process has another use for the core.
    lacks_cores : bool
        Whether the ranks need all the cores that there are.
    members : sequence of int
        The number of each rank in its world, which may have ranks on other hosts.
    world_size : int
        How many ranks the world has.
    """

    def __init__(
        self, Segment segment, int64_t rank, int64_t size, waiting, giving_way,
        bint lacks_cores=False, members=(), int64_t world_size=0
    ):
        self.rank, self.size = rank, size
        self.lacks_cores = lacks_cores
        self.members = tuple(members) or tuple(range(size))
        self.generation = segment.generation
        self.segment = segment
        self.end = endpoint_new(
            segment.base, segment.heap_bytes, rank, size,
            LANE_LIMIT * max(size, world_size),
        )
        if self.end == NULL:
            raise MemoryError
        self.end.usual, self.end.aside = waiting._asdict(), giving_way._asdict()
        # The ranks of a private segment are threads: they wait for each other's GIL.
        self.patience = 0 if segment.private else min(self.end.usual.spins, PATIENCE)
        self.whole = self.end.small_bytes
        if self.end.usual.spins == 0:
            endpoint_crowd(self.end)
        if world_size > size:
            self.end.nap = NAP
            self.end.remembers = 0  # letters tell of one call, not of those before
            endpoint_fence(self.end)  # as it often goes to sleep
        for place, member in enumerate(self.members):
            self.end.names[place] = member

    def __dealloc__(self):
        endpoint_free(self.end)

    cdef endpoint *open(self) except NULL:
        if self.end == NULL:
            raise ValueError("the transport is closed")
        if self.forked:
            raise ValueError("the transport belongs to the parent process")
        return self.end

    @property
    def closed(self):
        return self.end == NULL

    @property
    def forked(self):
        """Whether this is the child of a process that was forked after opening."""
        return self.generation != forks

    def watch(self, int64_t rank, int descriptor):
        """Take the rank for dead once a descriptor, as of a pidfd, becomes readable."""
        self.open().processes[rank].fd = descriptor

    def allow_fetching(self, processes):
        """Tell the others whether I may read the memory of all these processes."""
        cdef rank_header *me = header(self.open(), self.rank)
        me.process = processes[self.rank]
        me.fetches = are_numbered_here(processes, self.rank) and may_read(
            process for rank, process in enumerate(processes) if rank != self.rank
        )

    def drop_carriers(self):
        """Stage all in rings; to be called by all ranks, or by none."""
        self.open().held = 0

    def close(self, str exit_reason="its communicator was closed", bint failed=False):
        """Leave the world and tell the others why; closing twice does nothing.

        In the middle of a call by another thread, that call fails, and the memory is
        released with the object.
        """
        if self.end == NULL:
            return
        cdef bytes text = exit_reason.encode()[:250].decode(errors="ignore").encode()
        if not self.forked:
            endpoint_leave(self.end, RANK_FAILED if failed else RANK_CLOSED, text)
        if self.busy:
            return
        endpoint_free(self.end)
        self.end = NULL
        self.segment = None

    @property
    def completed(self):
        """How many calls this rank has brought to their end."""
        return header(self.open(), self.rank).completed

    def entered(self, int64_t place):
        """How many calls a rank of this host has begun."""
        return header(self.open(), place).entered

    def call(self, int64_t place, int64_t sequence=-1):
        """What a rank called last or, if it still knows, as its call of that number."""
        cdef rank_header *peer = header(self.open(), place)
        if sequence < 0:
            sequence = peer.entered
        cdef call_record *record = &peer.calls[sequence % CALLS]
        return as_dict(record) if sequence and record.sequence == sequence else None

    def exit_reason(self, int64_t place):
        """Why a rank has left, as it said itself, or an empty string."""
        cdef bytes text = <char *>header(self.open(), place).exit_reason
        return text.decode(errors="replace")

    def departure(self, int64_t place):
        """Whether a rank of this host has left in good order, and why; None if not."""
        if not is_gone(self.open(), place):
            return None
        in_order = header(self.end, place).status == RANK_CLOSED
        return in_order, self.exit_reason(place) or "its process ended"

    def break_off(self, int64_t sequence=0):
        """Let calls on this host fail from a number on: something happened on another."""
        cdef call_record nothing
        memset(&nothing, 0, sizeof(nothing))
        report(self.open(), FAILURE_ELSEWHERE, -1, sequence, &nothing)

    def failure(self):
        """What has broken this world: a dict, or None.

        Its ranks are those of the world. Of those it is about it has what they called
        last, and their exit_reason, if they are on this host.
        """
        cdef const world_failure *failure = known_failure(self.open())
        if failure == NULL:
            return None
        culprit, named = failure.culprit, min(failure.missing_ranks, MISSING)
        missing = [failure.missing[i] for i in range(named)]
        about = [rank for rank in {culprit, *missing} if rank in self.members]
        places = {rank: self.members.index(rank) for rank in about}
        return {
            "kind": FAILURES[failure.kind],
            "rank": failure.rank,
            "culprit": culprit,
            "sequence": failure.sequence,
            "waited": failure.waited,
            "mine": as_dict(&failure.mine),
            "theirs": as_dict(&failure.theirs),
            "missing": missing,
            "last_calls": {str(rank): self.call(places[rank]) for rank in about},
            "exit_reason": self.exit_reason(places[culprit]) if culprit in places else "",
        }

    cdef const call_record *called(self) noexcept nogil:
        """The call that this rank is in."""
        return &header(self.end, self.rank).calls[self.end.sequence % CALLS]

    cdef void accuse(
        self, bint of_mismatch, int64_t culprit, int64_t sequence,
        const call_record *theirs
    ) noexcept nogil:
        """Break the world because of a rank on another host."""
        report(
            self.end, FAILURE_MISMATCH if of_mismatch else FAILURE_PEER, culprit,
            sequence, theirs,
        )

    cdef int enter(self, const call_record *call, double timeout) noexcept nogil:
        if self.end == NULL:
            return CLOSED
        if self.generation != forks:
            return FORKED
        return endpoint_enter(self.end, call, timeout)

    cdef void leave(self) noexcept nogil:
        endpoint_exit(self.end)

    cdef int outlook(self, int64_t rank) noexcept nogil:
        if self.end == NULL or self.generation != forks:
            return CALLED
        return endpoint_outlook(self.end, rank)

    cdef void begin_step(self, int64_t posts, bint brief) noexcept nogil:
        endpoint_begin_step(self.end, posts, brief)

    cdef bint post(
        self, const int64_t *channels, int64_t readers, const char *data, int64_t nbytes
    ) noexcept nogil:
        return endpoint_post(self.end, channels, readers, data, nbytes)

    cdef char *reserve(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t left,
        int64_t *room
    ) noexcept nogil:
        return endpoint_reserve(self.end, post, channels, readers, left, room)

    cdef void fill(
        self, const int64_t *channels, char *slot, const char *data, int64_t nbytes
    ) noexcept nogil:
        stage(self.end, slot, data, nbytes)

    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil:
        endpoint_commit(self.end, post, channels, readers, nbytes)

    cdef bint lend(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil:
        return endpoint_lend(
            self.end, post, channels, readers, data, nbytes, share, fetch, last
        )

    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil:
        endpoint_offer(self.end, channel, number, target, nbytes)

    cdef int put(self, int64_t post, const message_part *part) noexcept nogil:
        return endpoint_put(self.end, post, part)

    cdef bint aim(self, const message_part *part, char **targets) noexcept nogil:
        return endpoint_aim(self.end, part, targets)

    cdef bint is_needed(self) noexcept nogil:
        return endpoint_is_lent(self.end)

    cdef bint peek(
        self, const int64_t *channels, int64_t senders, segment_state *segments
    ) noexcept nogil:
        return endpoint_peek(self.end, channels, senders, segments)

    cdef int fetch(
        self, int64_t channel, char *target, const char *data, int64_t nbytes
    ) noexcept nogil:
        return endpoint_fetch(self.end, channel, target, data, nbytes)

    cdef void release(self, const int64_t *channels, int64_t senders) noexcept nogil:
        endpoint_release(self.end, channels, senders)

    cdef void give_way(self, clockid_t caller) noexcept nogil:
        if self.end != NULL:
            endpoint_give_way(self.end, caller)

    cdef int pause(self, int64_t *idle) noexcept nogil:
        return endpoint_pause(self.end, idle)

    cdef void resume(self) noexcept nogil:
        endpoint_resume(self.end)
