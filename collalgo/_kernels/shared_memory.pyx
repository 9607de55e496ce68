# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Transport between the ranks of one host: processes or threads, by the same code.

The mechanism is C (``shared_memory.h``); this module owns the memory and tells Python
what happened.
"""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.time cimport clockid_t
from posix.unistd cimport getpid

from collalgo._kernels.transport cimport (
    CALLED, CLOSED, FORKED, LANE_LIMIT, Transport, as_dict, call_record, segment_state
)


cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)())


cdef extern from "<sys/mman.h>" nogil:
    enum: PROT_READ
    enum: PROT_WRITE
    enum: MAP_SHARED
    enum: MAP_ANONYMOUS
    enum: MAP_NORESERVE
    enum: MADV_DONTFORK
    enum: MADV_DONTDUMP
    enum: MADV_REMOVE
    void *MAP_FAILED
    void *mmap(void *address, size_t length, int prot, int flags, int fd, long offset)
    int munmap(void *address, size_t length)
    int madvise(void *address, size_t length, int advice)


cdef extern from "waiting.h" nogil:
    void endpoint_give_way(endpoint *e, clockid_t caller)
    int endpoint_pause(endpoint *e, int64_t *idle)
    void endpoint_resume(endpoint *e)

cdef extern from "staging.h" nogil:
    void stage(endpoint *e, char *target, const char *data, int64_t nbytes)

cdef extern from "shared_memory.h" nogil:
    enum: MISSING
    enum: SMALL_BYTES
    enum: FAILURE_NONE
    enum: FAILURE_MISMATCH
    enum: FAILURE_PEER
    enum: FAILURE_TIMEOUT
    enum: FAILURE_ELSEWHERE
    enum: RANK_CLOSED
    enum: RANK_FAILED
    enum: CALLS
    ctypedef struct world_failure:
        uint32_t kind
        int64_t rank, culprit, sequence, missing_ranks
        double waited
        call_record mine, theirs
        int32_t missing[MISSING]
    ctypedef struct world_header:
        world_failure failure
        double settings[16]
    ctypedef struct rank_header:
        uint32_t status
        int32_t process
        int64_t fetches
        uint64_t entered, completed
        call_record calls[CALLS]
        char farewell[1]
    int32_t fork_generation
    void count_fork()
    int64_t segment_bytes(int64_t size)
    world_header *world(const endpoint *e)
    rank_header *header(const endpoint *e, int64_t rank)
    endpoint *endpoint_new(
        char *base, int64_t heap_bytes, int64_t rank, int64_t size, int64_t posts
    )
    void endpoint_free(endpoint *e)
    void endpoint_crowd(endpoint *e)
    void endpoint_fence(endpoint *e)
    void endpoint_leave(endpoint *e, uint32_t status, const char *farewell)
    int endpoint_enter(endpoint *e, const call_record *call, double timeout)
    void endpoint_exit(endpoint *e)
    int report(
        endpoint *e, uint32_t kind, int64_t culprit, int64_t sequence,
        const call_record *theirs
    )
    void endpoint_begin_step(endpoint *e, int64_t posts, int brief)
    bint endpoint_post(
        endpoint *e, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes
    )
    char *endpoint_reserve(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        int64_t left, int64_t *room
    )
    void endpoint_commit(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        int64_t nbytes
    )
    bint endpoint_lend(
        endpoint *e, int64_t post, const int64_t *channels, int64_t readers,
        const char *data, int64_t nbytes, int fetch
    )
    bint endpoint_is_lent(endpoint *e)
    bint endpoint_peek(
        endpoint *e, const int64_t *channels, int64_t senders, segment_state *segments
    )
    int endpoint_fetch(
        endpoint *e, int64_t channel, char *target, const char *data, int64_t nbytes
    )
    bint may_fetch(int process)
    void endpoint_release(endpoint *e, const int64_t *channels, int64_t senders)
    bint is_gone(endpoint *e, int64_t rank)
    int endpoint_outlook(endpoint *e, int64_t rank)


pthread_atfork(NULL, NULL, count_fork)

FAILURES = {
    FAILURE_MISMATCH: "mismatch", FAILURE_PEER: "peer", FAILURE_TIMEOUT: "timeout",
    FAILURE_ELSEWHERE: "elsewhere",
}


#: The largest world on one host.
RANKS = 4096

cdef enum:
    PATIENCE = 100  # pauses, of about 3 microseconds: as long as a short call takes
    NAP = 100000    # nanoseconds: engines must be asked whether anything has come


def segment_size(int64_t size, int64_t heap_bytes):
    """Bytes of the segment of a world; most of them are never touched."""
    return segment_bytes(size) + size * heap_bytes


cdef class Segment:
    """The mapped memory of a world: of a file descriptor, or private without one.

    Parameters
    ----------
    size : int
        The number of ranks.
    heap_bytes : int
        What each rank can lend to the others at most.
    fd : int
        The memory file.
    """
    def __init__(self, int64_t size, int64_t heap_bytes=0, int fd=-1):
        cdef int flags = MAP_SHARED | MAP_NORESERVE
        if not 1 <= size <= RANKS:
            raise ValueError(f"{size} ranks: one host can hold 1 to {RANKS}")
        self.size = size
        self.heap_bytes = heap_bytes
        self.nbytes = segment_size(size, heap_bytes)
        self.generation = fork_generation
        self.private = fd < 0
        cdef void *base = mmap(
            NULL, self.nbytes, PROT_READ | PROT_WRITE,
            flags | (MAP_ANONYMOUS if fd < 0 else 0), fd, 0,
        )
        if base == MAP_FAILED:
            raise OSError(f"cannot map {self.nbytes} bytes for {size} ranks")
        self.base = <char *>base
        madvise(base, self.nbytes, MADV_DONTFORK)
        madvise(base + segment_bytes(size), size * heap_bytes, MADV_DONTDUMP)

    def settings(self):
        """The numbers that rank 0 has set for all ranks."""
        return [(<world_header *>self.base).settings[i] for i in range(16)]

    def __dealloc__(self):
        # A forked child does not have the mapping: the address may be another's.
        if self.base != NULL and self.generation == fork_generation:
            munmap(self.base, self.nbytes)


cdef class Block:
    """A run of the heap of a rank, as a buffer; given back when nobody uses it."""
    cdef object __weakref__
    cdef Segment segment
    cdef char *start
    cdef Py_ssize_t nbytes

    def __init__(self, Segment segment, int64_t rank, int64_t offset, int64_t nbytes):
        if not 0 <= offset <= offset + nbytes <= segment.heap_bytes:
            raise ValueError(f"{nbytes} bytes at {offset} are not in the heap")
        self.segment = segment
        self.start = segment.base + segment_bytes(segment.size)
        self.start += rank * segment.heap_bytes + offset
        self.nbytes = nbytes

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.nbytes, False, flags)


def give_back(Segment segment, int64_t rank, int64_t offset, int64_t nbytes):
    """Let the kernel have the pages of a part of the heap of a rank."""
    cdef char *start = segment.base + segment_bytes(segment.size)
    if segment.generation == fork_generation:
        madvise(start + rank * segment.heap_bytes + offset, nbytes, MADV_REMOVE)


def may_read(processes):
    """Whether this process may read the memory of all these processes."""
    return all(process and may_fetch(process) for process in processes)


def are_numbered_here(processes, int64_t rank):
    """Whether the numbers of processes are of my namespace: mine is what it says.

    Those of another may here be the numbers of strangers.
    """
    return processes[rank] == getpid()


def write_settings(Segment segment, numbers):
    """Set the numbers that all ranks can read."""
    for i, number in enumerate(numbers[:16]):
        (<world_header *>segment.base).settings[i] = number


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
        self.rank = rank
        self.size = size
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
        self.end.usual.spins, self.end.usual.hopes, self.end.usual.yields = waiting
        self.end.aside.spins, self.end.aside.hopes, self.end.aside.yields = giving_way
        # The ranks of a private segment are threads: they wait for each other's GIL.
        self.patience = 0 if segment.private else min(self.end.usual.spins, PATIENCE)
        self.whole = SMALL_BYTES
        if self.end.usual.spins == 0:
            endpoint_crowd(self.end)
        if world_size > size:
            self.end.nap = NAP
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
        return self.generation != fork_generation

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

    def close(self, str farewell="its communicator was closed", bint failed=False):
        """Leave the world and tell the others why; closing twice does nothing.

        In the middle of a call by another thread, that call fails, and the memory is
        released with the object.
        """
        if self.end == NULL:
            return
        cdef bytes text = farewell.encode()[:250].decode(errors="ignore").encode()
        if not self.forked:
            endpoint_leave(self.end, RANK_FAILED if failed else RANK_CLOSED, text)
        if self.busy:
            return
        endpoint_free(self.end)
        self.end = NULL
        self.segment = None

    @property
    def sequence(self):
        """How many calls this rank has made."""
        return self.open().sequence

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

    def farewell(self, int64_t place):
        """Why a rank has left, as it said itself, or an empty string."""
        cdef bytes text = <char *>header(self.open(), place).farewell
        return text.decode(errors="replace")

    def departure(self, int64_t place):
        """Whether a rank of this host has left in good order, and why; None if not."""
        if not is_gone(self.open(), place):
            return None
        in_order = header(self.end, place).status == RANK_CLOSED
        return in_order, self.farewell(place) or "its process ended"

    def break_off(self):
        """Let all calls on this host fail: something has happened on another."""
        cdef call_record nothing
        memset(&nothing, 0, sizeof(nothing))
        report(self.open(), FAILURE_ELSEWHERE, -1, self.end.sequence, &nothing)

    def failure(self):
        """What has broken this world: a dict, or None.

        Its ranks are those of the world. Of those it is about it has what they called
        last, and their farewell, if they are on this host.
        """
        cdef world_failure *failure = &world(self.open()).failure
        if failure.kind == FAILURE_NONE:
            return None
        named = min(failure.missing_ranks, MISSING)
        missing = [failure.missing[i] for i in range(named)]
        about = [rank for rank in {failure.culprit, *missing} if rank in self.members]
        places = {rank: self.members.index(rank) for rank in about}
        return {
            "kind": FAILURES[failure.kind],
            "rank": failure.rank,
            "culprit": failure.culprit,
            "sequence": failure.sequence,
            "waited": failure.waited,
            "mine": as_dict(&failure.mine),
            "theirs": as_dict(&failure.theirs),
            "missing": missing,
            "last_calls": {str(rank): self.call(places[rank]) for rank in about},
            "farewell": next(
                (self.farewell(places[rank]) for rank in about
                 if rank == failure.culprit), "",
            ),
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
        if self.end.generation != fork_generation:
            return FORKED
        return endpoint_enter(self.end, call, timeout)

    cdef void leave(self) noexcept nogil:
        endpoint_exit(self.end)

    cdef int outlook(self, int64_t rank) noexcept nogil:
        if self.end == NULL or self.end.generation != fork_generation:
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
        int64_t nbytes, bint fetch
    ) noexcept nogil:
        return endpoint_lend(self.end, post, channels, readers, data, nbytes, fetch)

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
