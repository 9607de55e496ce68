# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Channels between hosts, over any wire: segments in letters, a few under way.

Each letter begins with what its sender called, so that calls that differ are found
where they meet. Receives are posted ahead; every so many letters one is done only when
its receiver has posted for it, so no sender runs far ahead of who is slow.
"""

cimport cython
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from collalgo._kernels.engine.transport.transport cimport LANE_LIMIT, call_record
from collalgo._kernels.engine.transport.wire cimport LOST, UNDER_WAY, Wire

#: How often a receive that is given up is asked whether it is; it answers at once.
cdef enum:
    PATIENCE = 1000
    NOBODY = -1


@cython.no_gc_clear  # what is under way is taken back by the wire, at the very end
cdef class Network:
    """One rank's channels to the ranks on other hosts.

    Parameters
    ----------
    wire : Wire
        The engine.
    addresses : sequence of int
        What the engine calls each rank of the world.
    first_tag : int
        The tag of lane 0, and as many after it as there are lanes, belong to the world.
    """

    def __cinit__(self, Wire wire, addresses, int64_t first_tag):
        self.wire = wire
        self.size = len(addresses)
        self.first_tag = first_tag
        self.lost = NOBODY
        self.addresses = <int64_t *>calloc(self.size, sizeof(int64_t))
        self.lines = <line **>calloc(LANE_LIMIT * self.size, sizeof(void *))
        self.used = <int64_t *>calloc(LANE_LIMIT * self.size, sizeof(int64_t))
        if self.addresses == NULL or self.lines == NULL or self.used == NULL:
            raise MemoryError
        for rank, address in enumerate(addresses):
            self.addresses[rank] = address

    def __dealloc__(self):
        self.give_up()
        free(self.addresses)
        free(self.lines)
        free(self.used)

    cdef void give_up(self) noexcept:
        """Take back what is posted; memory that the engine still uses stays its own."""
        cdef int64_t i, k, _turn
        cdef line *one
        cdef bint idle
        for i in range(self.lines_used):
            one = self.lines[self.used[i]]
            idle = self.lost == NOBODY
            for k in range(DEPTH):
                if one.incoming[k].under_way:
                    self.wire.cancel(&one.incoming[k].request)
                for _turn in range(PATIENCE):
                    if self.done(self.used[i], &one.incoming[k]):
                        break
                idle = idle and not one.incoming[k].under_way
                idle = idle and self.done(self.used[i], &one.outgoing[k])
            if idle:
                free(one)
        self.lines_used = 0

    cdef line *open_line(self, int64_t channel) noexcept nogil:
        """The line of a channel, made at its first use; its pages come as they are used."""
        cdef int64_t pitch = HEADER_BYTES + SEGMENT_BYTES, k
        cdef line *one = self.lines[channel]
        cdef char *data
        if one == NULL:
            one = <line *>calloc(1, sizeof(line) + 64 + 2 * DEPTH * pitch)
            if one == NULL:
                self.lost = channel % self.size
                return NULL
            data = <char *>one + sizeof(line)
            data += -<int64_t>data & 63
            for k in range(DEPTH):
                one.outgoing[k].data = data + 2 * k * pitch
                one.incoming[k].data = data + (2 * k + 1) * pitch
            self.lines[channel] = one
            self.used[self.lines_used] = channel
            self.lines_used += 1
        return one

    cdef bint done(self, int64_t channel, letter *one) noexcept nogil:
        """Whether a letter is not under way, or not any more."""
        cdef int status
        if one.under_way:
            status = self.wire.test(
                self.addresses[channel % self.size], &one.request, &one.nbytes
            )
            if status == LOST:
                self.lost = channel % self.size
            one.under_way = status == UNDER_WAY
        return not one.under_way

    cdef char *reserve(self, int64_t channel, int64_t left, int64_t *room) noexcept nogil:
        """Where to write the next segment, or NULL if not now."""
        cdef line *one = self.open_line(channel)
        if one == NULL or not self.done(channel, &one.outgoing[one.sent % DEPTH]):
            return NULL
        room[0] = min(left, SEGMENT_BYTES)
        return one.outgoing[one.sent % DEPTH].data + HEADER_BYTES

    cdef void commit(
        self, int64_t channel, int64_t nbytes, const call_record *call
    ) noexcept nogil:
        """Send the segment that was reserved last."""
        cdef line *one = self.lines[channel]
        cdef letter *new = &one.outgoing[one.sent % DEPTH]
        cdef bint matched = one.sent % DEPTH == DEPTH - 1
        memcpy(new.data, call, sizeof(call_record))
        new.under_way = True
        new.waits = matched and nbytes <= PROMPT_BYTES
        one.sent += 1
        if self.wire.send(
            self.addresses[channel % self.size],
            self.first_tag + channel // self.size, new.data, HEADER_BYTES + nbytes,
            matched, &new.request,
        ) == LOST:
            self.lost = channel % self.size
            new.under_way = False

    cdef bint is_needed(self) noexcept nogil:
        """Whether the engine may still need me to send what I have written."""
        cdef int64_t i
        cdef line *one
        cdef letter *last
        for i in range(self.lines_used):
            one = self.lines[self.used[i]]
            while one.settled < one.sent:
                last = &one.outgoing[one.settled % DEPTH]
                if not last.waits and not self.done(self.used[i], last):
                    return True
                one.settled += 1
        return False

    cdef void post(self, int64_t channel) noexcept nogil:
        """Post receives for the letters to come."""
        cdef line *one = self.lines[channel]
        cdef letter *free_one
        while one.posted < one.consumed + DEPTH and self.lost == NOBODY:
            free_one = &one.incoming[one.posted % DEPTH]
            if self.wire.receive(
                self.addresses[channel % self.size],
                self.first_tag + channel // self.size, free_one.data,
                HEADER_BYTES + SEGMENT_BYTES, &free_one.request,
            ) == LOST:
                self.lost = channel % self.size
                return
            free_one.under_way = True
            one.posted += 1

    cdef const char *peek(
        self, int64_t channel, int64_t *nbytes, const call_record **call
    ) noexcept nogil:
        """The next segment that has come and what its sender called, or NULL."""
        cdef line *one = self.open_line(channel)
        cdef letter *first
        if one == NULL:
            return NULL
        self.post(channel)
        first = &one.incoming[one.consumed % DEPTH]
        if self.lost != NOBODY or not self.done(channel, first) or self.lost != NOBODY:
            return NULL
        if first.nbytes < HEADER_BYTES:
            self.lost = channel % self.size
            return NULL
        nbytes[0] = first.nbytes - HEADER_BYTES
        call[0] = <const call_record *>first.data
        return first.data + HEADER_BYTES

    cdef void release(self, int64_t channel) noexcept nogil:
        """The segment last peeked at has been consumed."""
        self.lines[channel].consumed += 1
        self.post(channel)
