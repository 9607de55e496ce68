# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages between the ranks of one host: processes or threads, by the same code.

The mechanism is C (``shared_memory.h``, ``zero_copy.h``, ``staged_copy.h``).
"""

from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.endpoint cimport (
    endpoint_begin_step,
    endpoint_commit,
    endpoint_fetch,
    endpoint_has_readers,
    endpoint_has_room,
    endpoint_locate,
    endpoint_offer,
    endpoint_peek,
    endpoint_post,
    endpoint_put,
    endpoint_release,
    endpoint_reserve,
    endpoint_send_direct,
    stage,
)
from collalgo._kernels.engine.transport.host_endpoint cimport HostEndpoint
from collalgo._kernels.engine.transport.segment cimport forks
from collalgo._kernels.engine.transport.transport cimport message_part, segment_state


cdef class SharedMemory(HostEndpoint):
    """The channels of one rank to the others of its host; see :class:`HostEndpoint`."""

    cdef bint has_room(self, int64_t rank, int64_t messages) noexcept nogil:
        return (
            self.end != NULL and self.generation == forks
            and endpoint_has_room(self.end, rank, messages)
        )

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
        stage(&self.end.staging, slot, data, nbytes)

    cdef void commit(
        self, int64_t post, const int64_t *channels, int64_t readers, int64_t nbytes
    ) noexcept nogil:
        endpoint_commit(self.end, post, channels, readers, nbytes)

    cdef bint send_direct(
        self, int64_t post, const int64_t *channels, int64_t readers, const char *data,
        int64_t nbytes, int share, int fetch, bint last
    ) noexcept nogil:
        return endpoint_send_direct(
            self.end, post, channels, readers, data, nbytes, share, fetch, last
        )

    cdef void offer(
        self, int64_t channel, int64_t number, const char *target, int64_t nbytes
    ) noexcept nogil:
        endpoint_offer(self.end, channel, number, target, nbytes)

    cdef int put(self, int64_t post, const message_part *part) noexcept nogil:
        return endpoint_put(self.end, post, part)

    cdef bint locate(self, const message_part *part, char **targets) noexcept nogil:
        return endpoint_locate(self.end, part, targets)

    cdef bint is_needed(self) noexcept nogil:
        return endpoint_has_readers(self.end)

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
