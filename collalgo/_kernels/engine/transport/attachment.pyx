# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The attachment of a rank to the memory of its host, from its begin to its end."""

from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.endpoint cimport (
    endpoint,
    endpoint_announce,
    endpoint_await_all,
    endpoint_share_cores,
    endpoint_fence,
    endpoint_free,
    endpoint_leave,
    endpoint_new,
    endpoint_needs_new_pages,
    header,
    wait_policy,
)
from collalgo._kernels.engine.transport.segment cimport (
    RANK_ABSENT,
    RANK_CLOSED,
    RANK_FAILED,
    Segment,
    forks,
    rank_header,
)
from collalgo._kernels.engine.transport.transport cimport LANE_LIMIT, Transport
from collalgo._kernels.engine.transport.wire cimport is_polled

cdef enum:
    PATIENCE = 100  # pauses of about 3 microseconds: the length of a short call
    FIRST_SLEEP = 100000    # nanoseconds: engines, also an MPI beneath, must be polled


cdef int set_policy(wait_policy *policy, found) except -1:
    policy.spins, policy.spin_ticks, policy.yields = found
    return 0


cdef class Attachment(Transport):
    """The attachment of one rank to the segment of its host.

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
        The id of this process if it can read the memory of the other ranks' processes on
        this host, else 0.
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
        if process:  # before the rank attaches, as the others then use it
            self.publish_can_fetch(process)
        endpoint_announce(self.end)

    cdef int configure(self, waits, bint across) except -1:
        """Set the waits, for a world on one host or across hosts."""
        set_policy(&self.end.usual, waits.usual)
        set_policy(&self.end.background, waits.background)
        of_threads = self.segment.of_threads  # threads wait for each other's GIL
        self.patience = 0 if of_threads else min(self.end.usual.spins, PATIENCE)
        self.whole = self.end.small_bytes
        if self.end.usual.spins == 0:
            endpoint_share_cores(self.end)
        if across or is_polled():
            self.end.first_sleep = FIRST_SLEEP
            self.end.polls = across
            endpoint_fence(self.end)  # as this rank often goes to sleep
        for place, member in enumerate(self.members):
            self.end.world_ranks[place] = member
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
        """Wait for all ranks of this host to attach; False if that takes long."""
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

    def publish_can_fetch(self, int process):
        """Publish that this process can read the memory of the other ranks' processes."""
        cdef rank_header *me = header(self.open(), self.rank)
        me.process, me.can_fetch = process, True

    def disable_recycled_slots(self):
        """Stage all messages in rings; to be called by all ranks, or by none."""
        self.open().recycled_count = 0

    def announce_leaving(self, str exit_reason, bint failed):
        """Announce that this rank leaves, with the reason; a call of another thread fails."""
        cdef bytes text = exit_reason.encode()[:250].decode(errors="ignore").encode()
        endpoint_leave(self.open(), RANK_FAILED if failed else RANK_CLOSED, text)

    def close(self, str exit_reason="its communicator was closed", bint failed=False):
        """Leave the world and announce the reason; closing twice does nothing.

        A call of another thread fails, and the memory is then released with the object.
        """
        if self.end == NULL:
            return
        if not self.forked:
            self.announce_leaving(exit_reason, failed)
        if self.busy:
            return
        if not self.forked:  # a forked child has not mapped the memory
            self.segment.needs_new_pages = (
                failed or endpoint_needs_new_pages(self.end) or self.segment.has_messages
            )
        endpoint_free(self.end)
        self.end = NULL
        self.segment = None
