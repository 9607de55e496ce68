# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The memory of a group of ranks of a host: a block of the pool after their segment."""

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from collalgo._kernels.engine.transport.segment cimport (
    Segment,
    class_of,
    forks,
    is_marked,
    map_shared,
    mark,
    pool_insert,
    pool_lock,
    pool_class,
    pool_join,
    pool_leave,
    pool_find,
    pool_remove_key,
    pool_free,
    pool_keep_warm,
    pool_marks,
    pool_next_of_rank,
    pool_unlock,
)

cdef extern from "<sys/mman.h>" nogil:
    enum: MADV_REMOVE
    int madvise(void *address, size_t length, int advice)

cdef extern from "<linux/falloc.h>" nogil:
    enum: FALLOC_FL_KEEP_SIZE
    enum: FALLOC_FL_PUNCH_HOLE

cdef extern from "<fcntl.h>" nogil:
    int fallocate(int fd, int mode, long offset, long length)

#: The bytes of the key of a group.
KEY_BYTES = 16


class DirectoryInUse(Exception):
    """The directory of the pool is in use by a rank that has not ended."""

    def __init__(self, place):
        super().__init__(f"rank {place} of this host uses the directory of its groups")
        self.place = place


class PoolExhausted(Exception):
    """All blocks for groups of some size are in use."""


cdef int claim(Segment host, int64_t place) except -1:
    """Lock the directory of the pool; `pool_unlock` unlocks it."""
    cdef uint32_t owner = pool_lock(host.directory(), place + 1, host.ends)
    if owner:
        raise DirectoryInUse(owner - 1)
    return 0


cdef pool_class *class_at(Segment host, int64_t level) noexcept:
    return &host.directory().classes[level]


cdef pool_marks *marks_of(Segment host, int64_t level, int64_t place) noexcept:
    """The marks of a rank of the host in the blocks of a class."""
    cdef pool_marks *marks = <pool_marks *>(host.base + host.pool.marks)
    return marks + level * host.pool.size + place


cdef bint return_pages(Segment host, int64_t level, uint32_t number) noexcept:
    """Return the pages of a block to the kernel: whether that succeeded."""
    cdef int64_t nbytes = host.pool.stride[level]
    cdef int64_t offset = host.pool.first[level] + (number - 1) * nbytes
    if host.fd < 0:
        return madvise(host.base + offset, nbytes, MADV_REMOVE) == 0
    cdef int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    return fallocate(host.fd, mode, offset, nbytes) == 0


cdef void free_block(
    Segment host, int64_t place, int64_t level, uint32_t number
) noexcept:
    """Free a block without a key. If the directory is locked, the block is lost."""
    if not return_pages(host, level, number):
        return
    if pool_lock(host.directory(), place + 1, host.ends) == 0:
        pool_free(class_at(host, level), number)
        pool_unlock(host.directory())


def lock_directory(Segment host, int64_t place):
    """Lock the directory and keep the lock, as a rank that dies with it: for tests."""
    claim(host, place)


def leave_in_place_of(Segment host, int64_t place, int64_t ended):
    """Leave all groups on behalf of a rank whose process has ended."""
    cdef pool_class *own
    cdef pool_marks *its
    cdef int64_t level
    cdef uint32_t number
    cdef bint is_last
    for level in range(host.pool.classes):
        own, its = class_at(host, level), marks_of(host, level, ended)
        number = pool_next_of_rank(own, its, 1)
        while number:
            claim(host, place)
            is_last = False
            if is_marked(its.member, number):  # no other rank has left in its place meanwhile
                own.entries[number].needs_new_pages = True
                is_last = pool_leave(own, its, number)
            pool_unlock(host.directory())
            if is_last:
                free_block(host, place, level, number)
            number = pool_next_of_rank(own, its, number + 1)


@cython.no_gc  # __dealloc__ needs the host
cdef class GroupMemory(Segment):
    """The memory of a group for one of its ranks; released with the object.

    Parameters
    ----------
    host : Segment
        The memory of the host.
    key : bytes
        The hash of the name of the group, of 16 bytes.
    places : sequence of int
        The numbers on this host of the ranks of the group there.
    place : int
        The number of this rank on its host.

    Raises
    ------
    DirectoryInUse
        If another rank has used the directory of the pool for a while.
    PoolExhausted
        If all blocks are in use.
    """
    cdef Segment host
    cdef tuple places
    cdef int64_t place, level, stride
    cdef uint32_t number

    def __init__(self, Segment host, bytes key, places, int64_t place):
        self.fd = -1
        self.generation = forks
        self.host, self.places, self.place = host, tuple(places), place
        self.size = len(self.places)
        self.heap_bytes, self.of_threads = host.heap_bytes, host.of_threads
        self.level = class_of(self.size)
        self.stride = host.pool.stride[self.level]
        self.needs_new_pages = True  # until its transport is closed and says otherwise
        self.open(key)
        self.map_block()

    cdef int open(self, bytes key) except -1:
        """Find the block of the group, or take one."""
        cdef pool_class *own = class_at(self.host, self.level)
        cdef int64_t blocks = self.host.pool.blocks[self.level]
        cdef uint64_t[2] words
        memcpy(words, <const char *>key, sizeof(words))
        claim(self.host, self.place)
        cdef uint32_t number = pool_find(own, words)
        if number == 0:
            number = pool_insert(own, words, self.size, blocks)
            self.mark_members(number)
        if number:
            pool_join(own, marks_of(self.host, self.level, self.place), number)
            self.round = own.entries[number].round
        pool_unlock(self.host.directory())
        if number == 0:
            raise PoolExhausted(f"{blocks} groups of up to {2 << self.level} ranks")
        self.number = number
        return 0

    cdef void mark_members(self, uint32_t number) noexcept:
        """Mark all ranks as members of a new group."""
        cdef int64_t member
        for member in self.places if number else ():
            mark(marks_of(self.host, self.level, member).member, number, True)

    def withdraw(self):
        """Refuse further ranks, which then make a new group; False if all have joined.

        All ranks can then try again under the same name.

        Raises
        ------
        DirectoryInUse
            If another rank has used the directory of the pool for a while.
        """
        cdef pool_class *own = class_at(self.host, self.level)
        cdef pool_marks *marks
        cdef int64_t member
        claim(self.host, self.place)
        cdef bint some_are_expected = own.entries[self.number].expected > 0
        pool_remove_key(own, self.number)
        for member in self.places if some_are_expected else ():
            marks = marks_of(self.host, self.level, member)
            if not is_marked(marks.joined, self.number):
                mark(marks.member, self.number, False)
        pool_unlock(self.host.directory())
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

    cdef void leave(self) noexcept:
        """Leave the group; the last of its ranks frees the block.

        If another rank holds the lock of the directory for long, the block is lost.
        """
        cdef pool_class *own = class_at(self.host, self.level)
        cdef pool_marks *mine = marks_of(self.host, self.level, self.place)
        cdef bint is_last, is_kept = False
        if self.number == 0 or pool_lock(
            self.host.directory(), self.place + 1, self.host.ends
        ):
            return
        is_last = False
        if is_marked(mine.member, self.number):  # no rank has left in place of this one
            own.entries[self.number].needs_new_pages |= self.needs_new_pages
            is_last = pool_leave(own, mine, self.number)
        if is_last:
            is_kept = pool_keep_warm(own, self.number, self.base)
        pool_unlock(self.host.directory())
        if is_last and not is_kept:
            free_block(self.host, self.place, self.level, self.number)

    def __dealloc__(self):
        if self.host is not None and self.host.generation == forks:
            self.leave()
