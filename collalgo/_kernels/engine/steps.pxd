from libc.stdint cimport int64_t

from collalgo._kernels.engine.posts cimport Posts
from collalgo._kernels.engine.template_tables cimport message_row, step_row
from collalgo._kernels.engine.transport.transport cimport Transport


cdef class Steps(Posts):
    cdef int64_t step, world  # the current step, and the number of ranks

    cdef int run_step(self, Transport transport, int64_t number) noexcept nogil
    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil
    cdef int move(
        self, Transport transport, const step_row *step, int64_t *unfinished
    ) noexcept nogil
    cdef int pull(self, Transport transport, int64_t m) noexcept nogil
    cdef int accept(self, Transport transport, int64_t m) noexcept nogil
    cdef char *place_for(self, int64_t m, int64_t nbytes, int64_t *room) noexcept nogil
    cdef int take(self, Transport transport, int64_t m, int64_t nbytes) noexcept nogil
    cdef void consume(
        self, Transport transport, int64_t m, int64_t nbytes
    ) noexcept nogil
    cdef bint may_overwrite(
        self, const message_row *message, int64_t end
    ) noexcept nogil
    cdef void combine(
        self, Transport transport, int64_t m, int64_t done, int64_t nbytes
    ) noexcept nogil
