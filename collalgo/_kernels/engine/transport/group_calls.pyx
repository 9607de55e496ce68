# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The calls that make groups, which the ranks of a host publish while they wait.

Only the members of a group make such a call, so it has no number of its own among the
calls of all ranks: it has the number of the next call.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from collalgo._kernels.engine.transport.endpoint cimport endpoint, header
from collalgo._kernels.engine.transport.segment cimport CALLS, HOST_RANKS, rank_header
from collalgo._kernels.engine.transport.shared_memory cimport SharedMemory
from collalgo._kernels.engine.transport.transport cimport (
    as_dict,
    as_record,
    call_record,
)

cdef extern from * nogil:
    int ACQUIRE "__ATOMIC_ACQUIRE"
    int RELEASE "__ATOMIC_RELEASE"
    int64_t load "__atomic_load_n"(const int64_t *word, int order)
    void store "__atomic_store_n"(int64_t *word, int64_t value, int order)
    void fence "__atomic_thread_fence"(int order)


cdef void hide(call_record *record) noexcept nogil:
    """Make other ranks ignore a record, which is written next."""
    store(&record.sequence, 0, RELEASE)
    fence(RELEASE)


cdef void publish(call_record *record, const call_record *call) noexcept nogil:
    """Write a record that was hidden."""
    cdef call_record found = call[0]
    found.sequence = 0
    record[0] = found
    store(&record.sequence, call.sequence, RELEASE)


def announce(SharedMemory shared, dict call, places):
    """Publish the call for a group in which this rank waits, and the places of its ranks."""
    cdef call_record record = as_record(call)
    cdef rank_header *me = header(shared.open(), shared.rank)
    cdef int64_t place
    hide(&me.joining)
    memset(me.members, 0, HOST_RANKS / 8)
    for place in places:
        me.members[place / 64] |= (<uint64_t>1) << (place % 64)
    publish(&me.joining, &record)


def withdraw(SharedMemory shared):
    """Publish that this rank no longer waits for a group."""
    if not (shared.closed or shared.forked):
        hide(&header(shared.open(), shared.rank).joining)


def announced(SharedMemory shared, int64_t place):
    """The call for a group in which a rank of this host waits for this rank, or None."""
    cdef rank_header *peer = header(shared.open(), place)
    cdef int64_t sequence = load(&peer.joining.sequence, ACQUIRE)
    if not sequence:
        return None
    cdef call_record found = peer.joining
    cdef bint with_me = peer.members[shared.rank / 64] >> (shared.rank % 64) & 1
    fence(ACQUIRE)
    if not with_me or load(&peer.joining.sequence, ACQUIRE) != sequence:
        return None
    return as_dict(&found)


def is_in_call(SharedMemory shared, int64_t place, int64_t number):
    """Whether a rank of this host is in the call with this number, or a later one."""
    cdef rank_header *peer = header(shared.open(), place)
    return number <= <int64_t>peer.entered and peer.completed < peer.entered


def report_failure(SharedMemory shared, dict mine, int64_t culprit, dict theirs):
    """Report that the call for a group here differs from the call of a member.

    The culprit is a rank of the world.
    """
    cdef call_record ours = as_record(mine), its = as_record(theirs)
    cdef endpoint *end = shared.open()
    cdef call_record *record = &header(end, shared.rank).calls[ours.sequence % CALLS]
    hide(record)
    publish(record, &ours)
    shared.report_failure(True, culprit, ours.sequence, &its)
