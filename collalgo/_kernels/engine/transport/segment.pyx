# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The memory that the ranks of one host share: of their world, of groups, and heaps."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport errno
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from posix.unistd cimport close

import os

from collalgo.engine.transport.limits import not_mapped


cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)())


cdef extern from "<sys/mman.h>" nogil:
    enum: PROT_READ
    enum: PROT_WRITE
    enum: MAP_SHARED
    enum: MAP_NORESERVE
    enum: MREMAP_MAYMOVE
    enum: MREMAP_FIXED
    enum: MADV_DOFORK
    enum: MADV_DONTFORK
    enum: MADV_DONTDUMP
    enum: MADV_REMOVE
    void *MAP_FAILED
    void *mmap(void *address, size_t length, int prot, int flags, int fd, long offset)
    void *mremap(void *old, size_t length, size_t new_length, int flags, void *address)
    int munmap(void *address, size_t length)
    int madvise(void *address, size_t length, int advice)


cdef void count_fork() noexcept nogil:
    global forks
    forks += 1


pthread_atfork(NULL, NULL, count_fork)

#: The largest number of ranks on one host.
RANKS = HOST_RANKS


cdef int lay_out(pool_layout *pool, int64_t size) except -1:
    """Lay out the memory of a number of ranks."""
    if not 1 <= size <= RANKS:
        raise ValueError(f"{size} ranks: one host can hold 1 to {RANKS}")
    pool_set_layout(pool, size)
    return 0


def segment_size(int64_t size, int64_t heap_bytes):
    """Bytes of the memory file of a host; most pages are never touched."""
    cdef pool_layout pool
    lay_out(&pool, size)
    return pool.end + size * heap_bytes


cdef char *map_shared(int fd, int64_t offset, int64_t nbytes) except NULL:
    """Map a part of a memory file, which a forked child does not inherit."""
    cdef void *base = mmap(
        NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, offset
    )
    if base == MAP_FAILED:
        raise not_mapped(nbytes, errno)
    madvise(base, nbytes, MADV_DONTFORK)
    return <char *>base


cdef class Segment:
    """The mapped memory of the ranks of a host, of a memory file.

    Behind the memory of the world of all of them lie the pool, of which groups take
    theirs, and the heaps. Without heaps, the blocks of the pool are mapped one by one.

    Parameters
    ----------
    fd : int
        The memory file.
    size : int
        The number of ranks.
    heap_bytes : int
        The size of the heap of each rank.
    of_threads : bool
        Whether the ranks are threads of this process.
    """
    def __init__(
        self, int fd, int64_t size, int64_t heap_bytes=0, bint of_threads=False
    ):
        cdef int64_t blocks
        self.fd = -1
        self.generation = forks
        lay_out(&self.pool, size)
        self.size, self.heap_bytes, self.of_threads = size, heap_bytes, of_threads
        blocks = self.pool.first[0]
        self.mapped = self.pool.end + size * heap_bytes if heap_bytes else blocks
        self.base = map_shared(fd, 0, self.mapped)
        self.heaps = self.base + self.pool.end
        if heap_bytes:
            madvise(self.base + blocks, self.mapped - blocks, MADV_DONTDUMP)
        else:
            self.fd = os.dup(fd)

    @property
    def forked(self):
        """Whether this is the child of a process that was forked after mapping it."""
        return self.generation != forks

    def settings(self):
        """The settings that rank 0 has written for all ranks."""
        return [(<world_header *>self.base).settings[i] for i in range(16)]

    cdef char *heap_of(self, int64_t rank):
        """The heap of a rank."""
        return self.heaps + rank * self.heap_bytes

    cdef pool_directory *directory(self) noexcept:
        return <pool_directory *>(self.base + self.pool.directory)

    def watch(self, ends):
        """Watch the processes of ranks by a dict of their descriptors, as of pidfds."""
        cdef int64_t place
        if self.ends == NULL:
            self.ends = <pollfd *>calloc(self.size, sizeof(pollfd))
        if self.ends == NULL:
            raise MemoryError
        for place in range(self.size):
            self.ends[place].fd = ends.get(place, -1)
            self.ends[place].events = POLLIN

    def ended(self):
        """The ranks whose processes are known to have ended."""
        if self.ends == NULL or poll(self.ends, self.size, 0) <= 0:
            return []
        return [place for place in range(self.size) if self.ends[place].revents]

    def __dealloc__(self):
        free(self.ends)
        # A forked child does not have the mapping: the address may be another's.
        if self.mapped and self.base != NULL and self.generation == forks:
            munmap(self.base, self.mapped)
        if self.fd >= 0:
            close(self.fd)


cdef class Block:
    """A block of the heap of a rank, as a buffer."""
    cdef object __weakref__
    cdef Segment segment
    cdef char *start
    cdef Py_ssize_t nbytes

    def __init__(self, Segment segment, int64_t rank, int64_t offset, int64_t nbytes):
        if not 0 <= offset <= offset + nbytes <= segment.heap_bytes:
            raise ValueError(f"{nbytes} bytes at {offset} are not in the heap")
        self.segment = segment
        self.start = segment.heap_of(rank) + offset
        self.nbytes = nbytes

    def map_at(self, size_t address):
        """Map the same memory at a second address, in place of the mapping there.

        Whole pages are replaced: they must hold nothing else. A forked child inherits
        the mapping, until the former owner of the address unmaps it.
        """
        cdef void *there = <void *>address
        # mremap of zero bytes of shared memory maps it a second time.
        there = mremap(self.start, 0, self.nbytes, MREMAP_MAYMOVE | MREMAP_FIXED, there)
        if there == MAP_FAILED:
            raise OSError(f"cannot map {self.nbytes} bytes at {address:#x}")
        madvise(there, self.nbytes, MADV_DOFORK)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.start, self.nbytes, False, flags)


def release_pages(Segment segment, int64_t rank, int64_t offset, int64_t nbytes):
    """Return the pages of a part of the heap of a rank to the kernel."""
    if segment.generation == forks:
        madvise(segment.heap_of(rank) + offset, nbytes, MADV_REMOVE)


def write_settings(Segment segment, numbers):
    """Write settings that all ranks can read."""
    for i, number in enumerate(numbers[:16]):
        (<world_header *>segment.base).settings[i] = number
