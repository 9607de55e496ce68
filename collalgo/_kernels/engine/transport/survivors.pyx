# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The survivors of the ranks of a host: revoke their world, and agree on the lost ranks.

The mechanism is C (``survivors.h``).
"""

from libc.stdint cimport int64_t, uint64_t

from time import sleep

from collalgo._kernels.engine.transport.endpoint cimport (
    endpoint,
    endpoint_await_decision,
    endpoint_enter_round,
    endpoint_revoke,
    endpoint_revoker,
    has_entered_round,
    header,
)
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint

cdef extern from "ticks.h" nogil:
    int64_t nanoseconds()


#: Seconds between two polls while another thread is in a call.
BUSY_SECONDS = 0.002


def revoke(HostEndpoint ranks, int64_t culprit, int64_t sequence=0):
    """Fail the calls of this host from a number on; the culprit is a rank of the world."""
    endpoint_revoke(ranks.open(), culprit, sequence)


def revoker(HostEndpoint ranks):
    """The rank of the world that has revoked it, or None."""
    cdef int64_t found = endpoint_revoker(ranks.open())
    return None if found < 0 else found


def next_call(HostEndpoint ranks):
    """The number of the next call of this rank."""
    return ranks.open().sequence + 1


def enter_round(HostEndpoint ranks, int64_t round):
    """Enter a round of the agreement on the lost ranks."""
    endpoint_enter_round(ranks.open(), round)


def missing(HostEndpoint ranks, int64_t round):
    """The ranks of this host that have not entered a round."""
    cdef endpoint *end = ranks.open()
    return [rank for rank in range(ranks.size) if not has_entered_round(end, rank, round)]


def await_decision(HostEndpoint ranks, int64_t round, double seconds):
    """Wait for the decision of a round: the lost ranks, or None after the timeout.

    Ranks are numbered as on this host. It waits for each rank to enter the round or to leave.
    """
    cdef endpoint *end = ranks.open()
    cdef int64_t decider
    cdef int64_t until = nanoseconds() + <int64_t>(seconds * 1e9)
    if ranks.busy:  # in a call of another thread, which may release the memory at its end
        decider = endpoint_await_decision(end, round, 0)
        if decider < 0:
            sleep(BUSY_SECONDS)
    else:
        ranks.busy = True  # so that its memory stays
        with nogil:
            decider = endpoint_await_decision(end, round, until)
        ranks.busy = False
    if decider < 0:
        return None
    return places(header(end, decider).lost, ranks.size)


cdef list places(const uint64_t *bits, int64_t size):
    """The numbers of the bits that are set."""
    cdef int64_t number
    return [number for number in range(size) if bits[number // 64] >> (number % 64) & 1]
