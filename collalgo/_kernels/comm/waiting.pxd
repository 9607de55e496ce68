from libc.stdint cimport int64_t

from collalgo._kernels.comm.queue cimport Queue
from collalgo._kernels.comm.task cimport Task


cdef class WaitableQueue(Queue):
    cdef unsigned long caller  # the thread of the call in the foreground, or 0

    cdef int reserve(self) except -1
    cdef bint try_reserve(self) noexcept nogil
    cdef void release(self) noexcept nogil
    cdef bint await_end(self, Task task, double seconds) except -1
    cdef int check_not_in_handler(self) except -1
    cdef bint check_other_thread(self, str call) except -1
    cdef int help_until(self, void *task) noexcept nogil
    cdef void sleep_until_end(self, void *task, double seconds) noexcept nogil
    cdef int raise_interrupted(self) except -1
    cdef bint is_over(self)
    cdef int watch_peer(
        self, int64_t rank, int64_t until, bint *interrupted
    ) noexcept nogil
