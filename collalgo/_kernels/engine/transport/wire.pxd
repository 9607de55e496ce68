from libc.stdint cimport int64_t


cdef enum:
    ARRIVED = 0
    UNDER_WAY = 1
    LOST = 2


ctypedef unsigned (*poll_type)(void *) noexcept nogil

cdef void set_poll(poll_type poll, void *engine) noexcept nogil
cdef void forget_poll(void *engine) noexcept nogil
cdef bint is_polled() noexcept nogil
cdef void poll_engine() noexcept nogil


cdef class Wire:
    cdef bint *lost  # whether each peer is lost; NULL if the engine does not tell
    cdef public bint is_cuda_aware, all_have_left
    cdef public int64_t shortest, longest, longest_staged
    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil
    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil
    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil
    cdef void cancel(self, int64_t *request) noexcept nogil
    cdef void abandon(self, int64_t *request) noexcept nogil
