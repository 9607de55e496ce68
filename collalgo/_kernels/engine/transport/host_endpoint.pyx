# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The endpoint of a rank in the memory of its host: its life, calls, waits and failures.

The mechanism is C (``failures.h``, ``waiting.h``); this module reports it to Python.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset
from posix.time cimport clockid_t

from collalgo._kernels.engine.transport.endpoint cimport (
    differing_rank,
    endpoint,
    endpoint_announce,
    endpoint_await_all,
    endpoint_begin_wait,
    endpoint_crowd,
    endpoint_enter,
    endpoint_exit,
    endpoint_fence,
    endpoint_free,
    endpoint_yield_core,
    endpoint_leave,
    endpoint_new,
    endpoint_peer_state,
    endpoint_pause,
    endpoint_resume,
    endpoint_wears,
    header,
    is_gone,
    known_failure,
    report,
    wait_policy,
)
from collalgo._kernels.engine.transport.segment cimport (
    CALLS,
    FAILURE_ELSEWHERE,
    FAILURE_MISMATCH,
    FAILURE_PEER,
    FAILURE_READ,
    FAILURE_REVOKED,
    FAILURE_TIMEOUT,
    MISSING,
    RANK_ABSENT,
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
)

cdef extern from * nogil:
    int ACQUIRE "__ATOMIC_ACQUIRE"
    int64_t load "__atomic_load_n"(const int64_t *word, int order)
    void fence "__atomic_thread_fence"(int order)

FAILURES = {
    FAILURE_MISMATCH: "mismatch", FAILURE_PEER: "peer", FAILURE_TIMEOUT: "timeout",
    FAILURE_ELSEWHERE: "elsewhere", FAILURE_READ: "read", FAILURE_REVOKED: "revoked",
}

cdef enum:
    PATIENCE = 100  # pauses of about 3 microseconds: the length of a short call
    NAP = 100000    # nanoseconds: engines between hosts must be polled


cdef int set_policy(wait_policy *policy, found) except -1:
    policy.spins, policy.spin_ticks, policy.yields, policy.yields_in_slices = found
    return 0


cdef class HostEndpoint(Transport):
    """The endpoint of one rank in the segment of its host.

    Parameters
    ----------
    segment : Segment
        The memory of the world.
    rank, size : int
        The rank, and the number of ranks of this host.
    waits : Waits
        The polls of a wait before it sleeps.
    members : sequence of int
        The rank of each member in its world, which may have other hosts.
    world_size : int
        The number of ranks of the world.
    process : int
        The id of this process, if it may read the memory of those of the other ranks of
        this host.
    """

    def __init__(
        self, Segment segment, int64_t rank, int64_t size, waits, members=(),
        int64_t world_size=0, int process=0
    ):
        self.rank, self.size = rank, size
        self.lacks_cores = waits.lacks_cores
        self.members = tuple(members) or tuple(range(size))
        self.generation = segment.generation
        self.segment = segment
        self.end = endpoint_new(
            segment.base, segment.heap_of(rank), segment.heap_bytes, rank, size,
            LANE_LIMIT * max(size, world_size), segment.round,
        )
        if self.end == NULL:
            raise MemoryError
        self.configure(waits, world_size > size)
        if process:  # which the others use as soon as this rank is there
            self.allow_fetching(process)
        endpoint_announce(self.end)

    cdef int configure(self, waits, bint across) except -1:
        """Set the waits, for a world on one host or across hosts."""
        set_policy(&self.end.usual, waits.usual)
        set_policy(&self.end.background, waits.background)
        of_threads = self.segment.of_threads  # which wait for each other's GIL
        self.patience = 0 if of_threads else min(self.end.usual.spins, PATIENCE)
        self.whole = self.end.small_bytes
        if self.end.usual.spins == 0:
            endpoint_crowd(self.end)
        if across:
            self.end.nap = NAP
            endpoint_fence(self.end)  # as this rank often goes to sleep
        for place, member in enumerate(self.members):
            self.end.names[place] = member
        return 0

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

    def await_all(self):
        """Wait for all ranks of this host to attach; False if some are not here soon."""
        cdef bint attached
        cdef endpoint *end = self.open()
        if self.busy:
            raise ValueError("the transport is in use")
        self.busy = True
        with nogil:
            attached = endpoint_await_all(end)
        self.busy = False
        return attached

    def absent(self):
        """The ranks of this host that have not attached yet."""
        cdef int64_t rank
        self.open()
        return [
            rank for rank in range(self.size)
            if header(self.end, rank).status == RANK_ABSENT
        ]

    def watch(self, int64_t rank, int descriptor):
        """Treat a rank as dead once a descriptor, as of a pidfd, becomes readable."""
        self.open().processes[rank].fd = descriptor

    def allow_fetching(self, int process):
        """Publish that this process may read the memory of those of the other ranks."""
        cdef rank_header *me = header(self.open(), self.rank)
        me.process, me.fetches = process, True

    def disable_recycled_slots(self):
        """Stage all messages in rings; to be called by all ranks, or by none."""
        self.open().recycled_count = 0

    def announce_leaving(self, str exit_reason, bint failed):
        """Tell the others that this rank leaves, and why; a call of another thread fails."""
        cdef bytes text = exit_reason.encode()[:250].decode(errors="ignore").encode()
        endpoint_leave(self.open(), RANK_FAILED if failed else RANK_CLOSED, text)

    def close(self, str exit_reason="its communicator was closed", bint failed=False):
        """Leave the world and tell the others the reason; closing twice does nothing.

        A call of another thread fails, and the memory is then released with the object.
        """
        if self.end == NULL:
            return
        if not self.forked:
            self.announce_leaving(exit_reason, failed)
        if self.busy:
            return
        if not self.forked:  # which does not have the memory
            self.segment.worn = (
                failed or endpoint_wears(self.end) or self.segment.has_messages
            )
        endpoint_free(self.end)
        self.end = NULL
        self.segment = None

    @property
    def completed(self):
        """The number of calls that this rank has completed."""
        return header(self.open(), self.rank).completed

    def entered(self, int64_t place):
        """The number of calls that a rank of this host has begun."""
        return header(self.open(), place).entered

    def call(self, int64_t place, int64_t sequence=-1):
        """The last call of a rank or, if it is still kept, the call of this number."""
        cdef rank_header *peer = header(self.open(), place)
        if sequence < 0:
            sequence = peer.entered
        cdef const call_record *record = &peer.calls[sequence % CALLS]
        if not sequence or load(&record.sequence, ACQUIRE) != sequence:
            return None
        cdef call_record found = record[0]
        fence(ACQUIRE)
        if load(&record.sequence, ACQUIRE) != sequence:  # overwritten meanwhile
            return None
        return as_dict(&found)

    def calls(self, place=None):
        """The last calls of a rank of this host, by default of this one, in order."""
        cdef int64_t rank = self.rank if place is None else place
        cdef int64_t last = self.entered(rank)
        found = [self.call(rank, n) for n in range(max(1, last - CALLS + 1), last + 1)]
        return [call for call in found if call]

    def differing(self):
        """A rank of this host that has made other calls, as far as is known, or None."""
        cdef int64_t place = differing_rank(self.open())
        return None if place < 0 else place

    def exit_reason(self, int64_t place):
        """The reason that a rank gave for leaving, or an empty string."""
        cdef bytes text = <char *>header(self.open(), place).exit_reason
        return text.decode(errors="replace")

    def departure(self, int64_t place):
        """Whether a rank of this host left in good order, and the reason; None if active."""
        if not is_gone(self.open(), place):
            return None
        in_order = header(self.end, place).status == RANK_CLOSED
        return in_order, self.exit_reason(place) or "its process ended"

    def break_off(self, int64_t sequence=0):
        """Fail the calls of this host from a number on, for a failure on another host."""
        cdef call_record nothing
        memset(&nothing, 0, sizeof(nothing))
        report(self.open(), FAILURE_ELSEWHERE, -1, sequence, &nothing)

    def failure(self):
        """The failure of this world: a dict, or None.

        Ranks are those of the world. For ranks of this host it includes the last call
        and the exit reason.
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
        """The current call of this rank."""
        return &header(self.end, self.rank).calls[self.end.sequence % CALLS]

    cdef void accuse(
        self, bint of_mismatch, int64_t culprit, int64_t sequence,
        const call_record *theirs
    ) noexcept nogil:
        """Report a failure whose culprit is a rank on another host."""
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

    cdef int peer_state(self, int64_t rank) noexcept nogil:
        if self.end == NULL or self.generation != forks:
            return CALLED
        return endpoint_peer_state(self.end, rank)

    cdef void begin_wait(self) noexcept nogil:
        endpoint_begin_wait(self.end)

    cdef void yield_core(self, clockid_t caller) noexcept nogil:
        if self.end != NULL:
            endpoint_yield_core(self.end, caller)

    cdef int pause(self, int64_t *idle) noexcept nogil:
        return endpoint_pause(self.end, idle)

    cdef void resume(self) noexcept nogil:
        endpoint_resume(self.end)
