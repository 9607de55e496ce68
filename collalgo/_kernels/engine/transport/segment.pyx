# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The memory that the ranks of one host share, and the heaps behind it."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t


cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)())


cdef extern from "<sys/mman.h>" nogil:
    enum: PROT_READ
    enum: PROT_WRITE
    enum: MAP_SHARED
    enum: MAP_ANONYMOUS
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
RANKS = 4096


def segment_size(int64_t size, int64_t heap_bytes):
    """Bytes of the segment of a world; most pages are never touched."""
    return segment_bytes(size) + size * heap_bytes


cdef class Segment:
    """The mapped memory of a world: of a file descriptor, or private without one.

    Parameters
    ----------
    size : int
        The number of ranks.
    heap_bytes : int
        The size of the heap of each rank.
    fd : int
        The memory file; anonymous memory if negative.
    """
    def __init__(self, int64_t size, int64_t heap_bytes=0, int fd=-1):
        cdef int flags = MAP_SHARED | MAP_NORESERVE
        if not 1 <= size <= RANKS:
            raise ValueError(f"{size} ranks: one host can hold 1 to {RANKS}")
        self.size = size
        self.heap_bytes = heap_bytes
        self.nbytes = segment_size(size, heap_bytes)
        self.generation = forks
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
        """The settings that rank 0 has written for all ranks."""
        return [(<world_header *>self.base).settings[i] for i in range(16)]

    def __dealloc__(self):
        # A forked child does not have the mapping: the address may be another's.
        if self.base != NULL and self.generation == forks:
            munmap(self.base, self.nbytes)


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
        self.start = segment.base + segment_bytes(segment.size)
        self.start += rank * segment.heap_bytes + offset
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


def give_back(Segment segment, int64_t rank, int64_t offset, int64_t nbytes):
    """Return the pages of a part of the heap of a rank to the kernel."""
    cdef char *start = segment.base + segment_bytes(segment.size)
    if segment.generation == forks:
        madvise(start + rank * segment.heap_bytes + offset, nbytes, MADV_REMOVE)


def write_settings(Segment segment, numbers):
    """Write settings that all ranks can read."""
    for i, number in enumerate(numbers[:16]):
        (<world_header *>segment.base).settings[i] = number
