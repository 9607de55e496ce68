# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The memory of a group of ranks of one host: a block of the pool behind their segment."""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from collalgo._kernels.engine.transport.segment cimport (
    Segment,
    class_of,
    forks,
    map_shared,
    pool_claim,
    pool_class,
    pool_directory,
    pool_forget,
    pool_leave,
    pool_open,
    pool_yield,
)

#: The bytes of the key of a group.
KEY_BYTES = 16


class DirectoryInUse(Exception):
    """The directory of the pool is in use by a rank, perhaps because it has ended."""

    def __init__(self, place):
        super().__init__(f"rank {place} of this host uses the directory of its groups")
        self.place = place


class PoolExhausted(Exception):
    """All blocks for groups of some size are in use."""


@cython.no_gc  # __dealloc__ needs the host
cdef class GroupMemory(Segment):
    """The memory of a group, as one of its ranks has it; released with the object.

    Parameters
    ----------
    host : Segment
        The memory of the host.
    key : bytes
        The hash of the name of the group, of 16 bytes.
    size : int
        The number of ranks of the group on this host.
    place : int
        The number of this rank on its host.

    Raises
    ------
    DirectoryInUse
        If another rank has used the directory of the pool for a while.
    PoolExhausted
        If there is no block left.
    """
    cdef Segment host
    cdef int64_t place, level, stride
    cdef uint32_t number

    def __init__(self, Segment host, bytes key, int64_t size, int64_t place):
        self.fd = -1
        self.generation = forks
        self.host, self.place, self.size = host, place, size
        self.heap_bytes, self.of_threads = host.heap_bytes, host.of_threads
        self.level = class_of(size)
        self.stride = host.pool.stride[self.level]
        self.open(key)
        self.map_block()

    cdef int open(self, bytes key) except -1:
        """Find the block of the group, or take one."""
        cdef pool_directory *directory = self.host.directory()
        cdef uint64_t[2] words
        memcpy(words, <const char *>key, sizeof(words))
        cdef uint32_t owner = pool_claim(directory, self.place + 1)
        if owner:
            raise DirectoryInUse(owner - 1)
        cdef int64_t blocks = self.host.pool.blocks[self.level]
        self.number = pool_open(
            &directory.classes[self.level], words, self.size, blocks
        )
        pool_yield(directory)
        if self.number == 0:
            raise PoolExhausted(f"{blocks} groups of up to {2 << self.level} ranks")
        return 0

    def withdraw(self):
        """Let no other rank come, which then makes a new group: False if all have come.

        All ranks can then try again under the same name.
        """
        cdef pool_directory *directory = self.host.directory()
        cdef pool_class *own = &directory.classes[self.level]
        cdef bint some_are_expected
        if pool_claim(directory, self.place + 1):
            return True
        some_are_expected = own.entries[self.number].expected > 0
        pool_forget(own, self.number)
        pool_yield(directory)
        return some_are_expected

    cdef int map_block(self) except -1:
        """Map the block, unless the whole pool is mapped."""
        cdef int64_t offset = self.host.pool.first[self.level]
        offset += (self.number - 1) * self.stride
        if self.host.fd < 0:
            self.base = self.host.base + offset
        else:
            self.base = map_shared(self.host.fd, offset, self.stride)
            self.mapped = self.stride
        return 0

    cdef char *heap_of(self, int64_t rank):
        """The heap of this rank, which it has in all groups."""
        return self.host.heap_of(self.place)

    def __dealloc__(self):
        cdef pool_directory *directory
        if self.number == 0 or self.host.generation != forks:
            return
        directory = self.host.directory()
        pool_leave(
            directory, &directory.classes[self.level], self.number, self.place + 1,
            self.base, self.stride,
        )
