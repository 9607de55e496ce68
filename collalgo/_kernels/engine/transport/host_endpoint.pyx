# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The endpoint of a rank in the memory of its host: its calls, waits and failures.

The mechanism is C (``calls.h``, ``failures.h``, ``waiting.h``); this module reports it to Python.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset
from posix.time cimport clockid_t

from collalgo._kernels.engine.transport.attachment cimport Attachment
from collalgo._kernels.engine.transport.endpoint cimport (
    differing_rank,
    endpoint,
    endpoint_begin_wait,
    endpoint_enter,
    endpoint_exit,
    endpoint_pause,
    endpoint_peer_state,
    endpoint_resume,
    endpoint_sleeps,
    endpoint_yield_core,
    header,
    has_left_by_now,
    known_failure,
    report,
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
    RANK_CLOSED,
    forks,
    rank_header,
    world_failure,
)
from collalgo._kernels.engine.transport.transport cimport (
    CALLED,
    CLOSED,
    FORKED,
    as_dict,
    call_record,
)
from collalgo._kernels.engine.transport.wire cimport poll_engine

cdef extern from * nogil:
    int ACQUIRE "__ATOMIC_ACQUIRE"
    int64_t load "__atomic_load_n"(const int64_t *word, int order)
    void fence "__atomic_thread_fence"(int order)

FAILURES = {
    FAILURE_MISMATCH: "mismatch", FAILURE_PEER: "peer", FAILURE_TIMEOUT: "timeout",
    FAILURE_ELSEWHERE: "elsewhere", FAILURE_READ: "read", FAILURE_REVOKED: "revoked",
}

cdef extern from *:
    """
    static int64_t *calls_of_user(endpoint *e) { return &e->number; }
    """
    int64_t *calls_of_user(endpoint *end) nogil


cdef class HostEndpoint(Attachment):
    """The endpoint of one rank in the segment of its host; see :class:`Attachment`."""

    @property
    def completed(self):
        """The number of calls that this rank has completed."""
        return header(self.open(), self.rank).completed

    def entered(self, int64_t place):
        """The number of calls that a rank of this host has begun."""
        return header(self.open(), place).entered

    @property
    def number(self):
        """The number of the last call of the user that has run."""
        return calls_of_user(self.open())[0]

    @number.setter
    def number(self, int64_t calls):
        calls_of_user(self.open())[0] = calls

    def call(self, int64_t place, int64_t sequence=-1):
        """The last call of a rank, or its call of a number; None if it is not kept."""
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
        """A rank of this host that is known to have made different calls, or None."""
        cdef int64_t place = differing_rank(self.open())
        return None if place < 0 else place

    def exit_reason(self, int64_t place):
        """The reason that a rank gave for leaving, or an empty string."""
        cdef bytes text = <char *>header(self.open(), place).exit_reason
        return text.decode(errors="replace")

    def departure(self, int64_t place):
        """Whether a rank of this host has closed, and its reason; None if active."""
        if not has_left_by_now(self.open(), place):
            return None
        in_order = header(self.end, place).status == RANK_CLOSED
        return in_order, self.exit_reason(place) or "its process ended"

    def abort_calls(self, int64_t sequence=0):
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

    cdef void report_failure(
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
        cdef int status = endpoint_pause(self.end, idle)
        if endpoint_sleeps(self.end):
            poll_engine()
        return status

    cdef void resume(self) noexcept nogil:
        endpoint_resume(self.end)
