# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The memory of a group of ranks of one host: a block of the pool behind their segment."""

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
    pool_add,
    pool_claim,
    pool_class,
    pool_come,
    pool_count_off,
    pool_find,
    pool_forget,
    pool_free,
    pool_keep,
    pool_marks,
    pool_next,
    pool_yield,
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
    """Own the directory of the pool, which `pool_yield` gives back."""
    cdef uint32_t owner = pool_claim(host.directory(), place + 1, host.ends)
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
    """Return the pages of a block to the kernel: whether it took them."""
    cdef int64_t nbytes = host.pool.stride[level]
    cdef int64_t offset = host.pool.first[level] + (number - 1) * nbytes
    if host.fd < 0:
        return madvise(host.base + offset, nbytes, MADV_REMOVE) == 0
    cdef int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
    return fallocate(host.fd, mode, offset, nbytes) == 0


cdef void free_block(
    Segment host, int64_t place, int64_t level, uint32_t number
) noexcept:
    """Free a block that is forgotten. Without the directory it is lost."""
    if not return_pages(host, level, number):
        return
    if pool_claim(host.directory(), place + 1, host.ends) == 0:
        pool_free(class_at(host, level), number)
        pool_yield(host.directory())


def claim_directory(Segment host, int64_t place):
    """Own the directory from now on, as a rank that ends while it does: for tests."""
    claim(host, place)


def leave_for(Segment host, int64_t place, int64_t ended):
    """Leave all groups in place of a rank whose process has ended."""
    cdef pool_class *own
    cdef pool_marks *its
    cdef int64_t level
    cdef uint32_t number
    cdef bint is_last
    for level in range(host.pool.classes):
        own, its = class_at(host, level), marks_of(host, level, ended)
        number = pool_next(own, its, 1)
        while number:
            claim(host, place)
            is_last = False
            if is_marked(its.member, number):  # no other rank has done so meanwhile
                own.entries[number].worn = True
                is_last = pool_count_off(own, its, number)
            pool_yield(host.directory())
            if is_last:
                free_block(host, place, level, number)
            number = pool_next(own, its, number + 1)


@cython.no_gc  # __dealloc__ needs the host
cdef class GroupMemory(Segment):
    """The memory of a group, as one of its ranks has it; released with the object.

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
        If there is no block left.
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
        self.worn = True  # until its transport is closed and says otherwise
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
            number = pool_add(own, words, self.size, blocks)
            self.mark_members(number)
        if number:
            pool_come(own, marks_of(self.host, self.level, self.place), number)
            self.round = own.entries[number].round
        pool_yield(self.host.directory())
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
        """Let no other rank come, which then makes a new group: False if all have come.

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
        pool_forget(own, self.number)
        for member in self.places if some_are_expected else ():
            marks = marks_of(self.host, self.level, member)
            if not is_marked(marks.come, self.number):
                mark(marks.member, self.number, False)
        pool_yield(self.host.directory())
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

        If another rank uses the directory for long, the block is lost.
        """
        cdef pool_class *own = class_at(self.host, self.level)
        cdef pool_marks *mine = marks_of(self.host, self.level, self.place)
        cdef bint is_last, is_kept = False
        if self.number == 0 or pool_claim(
            self.host.directory(), self.place + 1, self.host.ends
        ):
            return
        is_last = False
        if is_marked(mine.member, self.number):  # nobody has left in place of this rank
            own.entries[self.number].worn |= self.worn
            is_last = pool_count_off(own, mine, self.number)
        if is_last:
            is_kept = pool_keep(own, self.number, self.base)
        pool_yield(self.host.directory())
        if is_last and not is_kept:
            free_block(self.host, self.place, self.level, self.number)

    def __dealloc__(self):
        if self.host is not None and self.host.generation == forks:
            self.leave()
