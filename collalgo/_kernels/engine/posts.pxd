from libc.stdint cimport int64_t

from collalgo._kernels.engine.filling cimport piece_row
from collalgo._kernels.engine.messages cimport Messages
from collalgo._kernels.engine.transport.transport cimport Transport, message_part


cdef class Posts(Messages):
    cdef readonly bint fetched
    cdef int64_t carried  # the most bytes of a message between hosts
    cdef int fetch, mapped  # zero-copy policies, for memory of my process and of the heap

    cdef bint may_share(self, int64_t m) noexcept nogil
    cdef int share(self, int64_t m) noexcept nogil
    cdef void offer(self, Transport transport) noexcept nogil
    cdef message_part part_of(
        self, int64_t post, const piece_row *piece, int64_t done, int64_t nbytes
    ) noexcept nogil
    cdef int64_t locate(
        self, Transport transport, int64_t post, int64_t done, int64_t nbytes
    ) noexcept nogil
    cdef int put(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef bint send_direct(
        self, Transport transport, int64_t m, int64_t post
    ) noexcept nogil
    cdef int push(self, Transport transport, int64_t m, int64_t post) noexcept nogil
    cdef int stage(self, Transport transport, int64_t m, int64_t post) noexcept nogil
