# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Transport between the ranks of several hosts: shared memory inside, a wire between.

A channel to a rank of this host uses the shared memory, any other the wire. Waits,
timeouts and failures are those of the shared memory, so that all ranks of a host stop
together.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from posix.time cimport clockid_t

from collalgo._kernels.engine.transport.comparison cimport Comparison
from collalgo._kernels.engine.transport.device_messages import DeviceMessages
from collalgo._kernels.engine.transport.network cimport Network
from collalgo._kernels.engine.transport.segment cimport forks
from collalgo._kernels.engine.transport.shared_memory cimport SharedMemory
from collalgo._kernels.engine.transport.transport cimport (
    CALLED, LANE_LIMIT, LEFT, NEAR, NOT_CARRIED, NOT_OFFERED, QUIET, SIGNALS, STOP,
    Transport, call_record, message_part, segment_state,
)

cdef enum:
    ELSEWHERE = -1  # the local channel of a rank on another host
    HERE = -1       # instead of the number of calls of a rank that has not left


cdef class Composite(Transport):
    """The channels of one rank of a world on several hosts.

    Parameters
    ----------
    shared : SharedMemory
        Its channels inside its host.
    network : Network
        Its channels to the other hosts.
    size : int
        The number of ranks of the world.
    """
    cdef readonly SharedMemory shared
    cdef readonly Comparison comparison
    cdef Network network
    cdef int64_t *local       # for each channel, its number in the shared memory
    cdef int64_t *translated  # the local channels of the readers of a post
    cdef int64_t *completed   # the calls of each rank that has left elsewhere, or HERE

    def __init__(self, SharedMemory shared, Network network, int64_t size):
        cdef int64_t lane, place
        self.shared = shared
        self.network = network
        self.size = size
        self.rank = shared.members[shared.rank]
        self.patience = shared.patience
        self.carries = True
        self.comparison = Comparison(shared, self.rank, size)
        self.local = <int64_t *>calloc(LANE_LIMIT * size, sizeof(int64_t))
        self.translated = <int64_t *>calloc(LANE_LIMIT * size, sizeof(int64_t))
        self.completed = <int64_t *>calloc(size, sizeof(int64_t))
        if self.local == NULL or self.translated == NULL or self.completed == NULL:
            raise MemoryError
        memset(self.local, ELSEWHERE, LANE_LIMIT * size * sizeof(int64_t))
        memset(self.completed, HERE, size * sizeof(int64_t))
        for lane in range(LANE_LIMIT):
            for place, member in enumerate(shared.members):
                self.local[lane * size + member] = lane * shared.size + place

    def __dealloc__(self):
        free(self.local)
        free(self.translated)
        free(self.completed)

    @property
    def closed(self):
        return self.shared.closed

    @property
    def forked(self):
        """Whether this is the child of a process that was forked after opening."""
        return self.shared.forked

    @property
    def completed(self):
        """The number of calls that this rank has completed."""
        return self.shared.completed

    @property
    def device_messages(self):
        is_cuda_aware = self.network.wire.is_cuda_aware
        return DeviceMessages(self, self.network) if is_cuda_aware else None

    def failure(self):
        """The failure of this world: a dict, or None; see :class:`HostEndpoint`."""
        return self.shared.failure()

    def mark_departed(self, int64_t rank, int64_t completed):
        """Note that a rank on another host has left after ``completed`` calls."""
        self.completed[rank] = completed

    def close(self, str exit_reason="its communicator was closed", bint failed=False):
        """Leave the world, and announce the reason to the ranks of this host."""
        if self.shared.closed:
            return
        self.shared.busy = self.busy  # the call of another thread ends by itself
        self.shared.close(exit_reason, failed)
        if not self.busy and not self.shared.forked:
            self.network.give_up()

    cdef int enter(self, const call_record *call, double timeout) noexcept nogil:
        return self.shared.enter(call, timeout)

    cdef void leave(self) noexcept nogil:
        self.shared.leave()

    cdef int peer_state(self, int64_t rank) noexcept nogil:
        if self.local[rank] != ELSEWHERE:
            return self.shared.peer_state(self.local[rank])
        if self.shared.peer_state(self.shared.rank) == CALLED:  # a call has failed
            return CALLED
        if self.network.first(rank) != NULL or self.network.lost >= 0:
            return CALLED
        if 0 <= self.completed[rank] <= self.shared.called().sequence:
            return LEFT
        return QUIET

    cdef bint has_room(self, int64_t rank, int64_t messages) noexcept nogil:
        if self.local[rank] != ELSEWHERE:
            return self.shared.has_room(self.local[rank], messages)
        return (
            self.shared.end != NULL and self.shared.generation == forks
            and self.network.has_room(rank, messages)
        )

    cdef void begin_wait(self) noexcept nogil:
        self.shared.begin_wait()

    cdef void begin_step(self, int64_t posts, bint brief) noexcept nogil:
        self.shared.begin_step(posts, brief)

    cdef const int64_t *inside(
        self, const int64_t *channels, int64_t readers
    ) noexcept nogil:
        """The channels of a post, as numbered in the shared memory."""
        cdef int64_t i
        for i in range(readers):
            self.translated[i] = self.local[channels[i]]
        return self.translated

    cdef char *reserve(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t left,
        int64_t *room
    ) noexcept nogil:
        if self.local[channels[0]] == ELSEWHERE:
            return self.network.reserve(channels[0], left, room)
        return self.shared.reserve(
            post, self.inside(channels, readers), readers, left, room
        )

    cdef void fill(
        self, const int64_t *channels, char *slot, const char *data, int64_t nbytes
    ) noexcept nogil:
        if self.local[channels[0]] == ELSEWHERE:
            Transport.fill(self, channels, slot, data, nbytes)
        else:
            self.shared.fill(channels, slot, data, nbytes)

    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil:
        if self.local[channels[0]] == ELSEWHERE:
            self.network.commit(channels[0], nbytes, 0, self.shared.called())
        else:
            self.shared.commit(post, self.inside(channels, readers), readers, nbytes)

    cdef bint send_direct(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil:
        if self.local[channels[0]] == ELSEWHERE:
            return False
        return self.shared.send_direct(
            post, self.inside(channels, readers), readers, data, nbytes, share, fetch,
            last,
        )

    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil:
        if self.local[channel] != ELSEWHERE:
            self.shared.offer(self.local[channel], number, target, nbytes)

    cdef message_part part_inside(self, const message_part *part) noexcept nogil:
        """A part of a message, with the channels of the shared memory."""
        cdef message_part found = part[0]
        found.channels = self.inside(part.channels, part.readers)
        return found

    cdef int put(self, int64_t post, const message_part *part) noexcept nogil:
        if self.local[part.channels[0]] == ELSEWHERE:
            return NOT_OFFERED
        cdef message_part inside = self.part_inside(part)
        return self.shared.put(post, &inside)

    cdef bint locate(self, const message_part *part, char **targets) noexcept nogil:
        if self.local[part.channels[0]] == ELSEWHERE:
            return False
        cdef message_part inside = self.part_inside(part)
        return self.shared.locate(&inside, targets)

    cdef int64_t carry(
        self, int64_t channel, const char *data, int64_t nbytes, int64_t most
    ) noexcept nogil:
        if self.local[channel] != ELSEWHERE:
            return NOT_CARRIED
        return self.network.carry(channel, data, nbytes, most, self.shared.called())

    cdef void accept(
        self, int64_t channel, char *target, int64_t nbytes, int64_t room
    ) noexcept nogil:
        self.network.accept(channel, target, nbytes, room)

    cdef bint forget(self) noexcept nogil:
        self.network.forget()
        return self.network.in_use

    cdef bint is_needed(self) noexcept nogil:
        return self.shared.is_needed() or self.network.is_needed()

    cdef bint peek(
        self, const int64_t *channels, int64_t senders, segment_state *segments
    ) noexcept nogil:
        cdef int64_t i
        cdef bint all_arrived = True
        for i in range(senders):
            if segments[i].data == NULL:
                if self.local[channels[i]] == ELSEWHERE:
                    self.peek_elsewhere(channels[i], &segments[i])
                else:
                    self.shared.peek(&self.local[channels[i]], 1, &segments[i])
                all_arrived = all_arrived and segments[i].data != NULL
        return all_arrived

    cdef void peek_elsewhere(
        self, int64_t channel, segment_state *segment
    ) noexcept nogil:
        """Look for the next segment from a rank on another host."""
        cdef const call_record *theirs
        cdef const call_record *mine = self.shared.called()
        if not self.network.peek(channel, segment, &theirs):
            return
        if theirs.fingerprint == mine.fingerprint:
            return
        segment.data, segment.location = NULL, NEAR
        # The first call that differs is that of the packet, or of this rank if earlier.
        self.shared.report_failure(
            True, channel % self.size, min(theirs.sequence, mine.sequence), theirs
        )

    cdef int fetch(
        self, int64_t channel, char *target, const char *data, int64_t nbytes
    ) noexcept nogil:
        return self.shared.fetch(self.local[channel], target, data, nbytes)

    cdef void release(self, const int64_t *channels, int64_t senders) noexcept nogil:
        cdef int64_t i
        for i in range(senders):
            if self.local[channels[i]] == ELSEWHERE:
                self.network.release(channels[i])
            else:
                self.shared.release(&self.local[channels[i]], 1)

    cdef void yield_core(self, clockid_t caller) noexcept nogil:
        self.shared.yield_core(caller)

    cdef int pause(self, int64_t *idle) noexcept nogil:
        cdef int status = self.shared.pause(idle)
        cdef int64_t sequence, rank
        self.network.drive()
        if self.network.lost >= 0:
            self.report_failure(self.network.lost)
            return STOP
        if status == SIGNALS:
            sequence = self.shared.called().sequence
            for rank in range(self.size):
                if 0 <= self.completed[rank] < sequence:
                    self.report_failure(rank)
                    return STOP
            self.comparison.ask_if_due()
        return status

    cdef void report_failure(self, int64_t rank) noexcept nogil:
        """Report the failure of a rank on another host."""
        cdef call_record nothing
        memset(&nothing, 0, sizeof(nothing))
        self.shared.report_failure(False, rank, self.shared.called().sequence, &nothing)

    cdef void resume(self) noexcept nogil:
        self.shared.resume()
