from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from collalgo._kernels.engine.transport.transport cimport call_record


cdef extern from "<poll.h>" nogil:
    enum: POLLIN
    ctypedef struct pollfd "struct pollfd":
        int fd
        short events, revents
    int poll(pollfd *descriptors, unsigned long count, int milliseconds)


cdef extern from "segment.h" nogil:
    enum: MISSING
    enum: FAILURE_MISMATCH
    enum: FAILURE_PEER
    enum: FAILURE_TIMEOUT
    enum: FAILURE_ELSEWHERE
    enum: FAILURE_READ
    enum: FAILURE_REVOKED
    enum: RANK_ABSENT
    enum: RANK_CLOSED
    enum: RANK_FAILED
    enum: CALLS
    enum: HOST_RANKS
    ctypedef struct world_failure:
        uint32_t kind
        int64_t rank, culprit, sequence, missing_ranks
        double waited
        call_record mine, theirs
        int32_t missing[MISSING]
    ctypedef struct world_header:
        double settings[16]
        uint32_t revoked
    ctypedef struct rank_header:
        uint32_t status
        int32_t process
        int64_t can_fetch
        uint64_t entered, completed
        call_record calls[CALLS]
        char exit_reason[1]
        uint64_t lost[1]
        call_record joining
        uint64_t members[1]
    int64_t segment_bytes(int64_t size)


cdef extern from "pool.h" nogil:
    enum: CLASSES
    ctypedef struct pool_entry:
        uint32_t expected, round, needs_new_pages
    ctypedef struct pool_class:
        pool_entry entries[1]
    ctypedef struct pool_directory:
        pool_class classes[CLASSES]
    ctypedef struct pool_marks:
        uint64_t member[1]
        uint64_t joined[1]
    ctypedef struct pool_layout:
        int64_t directory, marks, size, classes, end
        int64_t first[CLASSES]
        int64_t stride[CLASSES]
        int64_t blocks[CLASSES]
    int64_t class_of(int64_t size)
    void pool_set_layout(pool_layout *p, int64_t size)
    uint32_t pool_lock(pool_directory *d, uint32_t me, const pollfd *ends)
    void pool_unlock(pool_directory *d)
    void mark(uint64_t *marks, uint32_t number, bint is_set)
    bint is_marked(const uint64_t *marks, uint32_t number)
    uint32_t pool_find(const pool_class *c, const uint64_t *key)
    uint32_t pool_insert(pool_class *c, const uint64_t *key, uint32_t size, int64_t blocks)
    void pool_join(pool_class *c, pool_marks *mine, uint32_t number)
    bint pool_leave(pool_class *c, pool_marks *its, uint32_t number)
    uint32_t pool_next_of_rank(const pool_class *c, const pool_marks *its, uint32_t number)
    void pool_remove_key(pool_class *c, uint32_t number)
    bint pool_keep_warm(pool_class *c, uint32_t number, char *block)
    void pool_free(pool_class *c, uint32_t number)


cdef int32_t forks  # the number of forks between the start and this process

cdef char *map_shared(int fd, int64_t offset, int64_t nbytes) except NULL


cdef class Segment:
    cdef char *base
    cdef char *heaps
    cdef int64_t size, mapped
    cdef readonly int64_t heap_bytes
    cdef readonly bint of_threads
    cdef int fd  # of the memory file if the pool is not mapped, or -1
    cdef int32_t generation
    cdef pool_layout pool
    cdef pollfd *ends  # readable once the process of a rank has ended; or NULL
    cdef int64_t round  # the number of groups that have used this memory before
    cdef bint has_messages  # matched by tags
    cdef bint needs_new_pages  # whether the memory needs new pages once it is free

    cdef char *heap_of(self, int64_t rank)
    cdef pool_directory *directory(self) noexcept
