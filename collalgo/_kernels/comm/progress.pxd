from libc.stdint cimport int64_t

from collalgo._kernels.comm.pthreads cimport pthread_cond_t
from collalgo._kernels.comm.queue cimport Queue, Task


cdef class Progress(Queue):
    cdef object thread
    cdef pthread_cond_t arrived
    cdef int64_t submitted, due  # the last, and when the thread is to run the first
    cdef int64_t held_until  # when it is to do so if nobody has caught up
    cdef int64_t last_held  # when a call was left to who makes it
    cdef int64_t wakes  # when the thread will look by itself
    cdef readonly bint used

    cdef int submit(self, Task task) except -1
    cdef bint await_call(self, bint tidy) noexcept nogil
    cdef void remind(self) noexcept nogil
