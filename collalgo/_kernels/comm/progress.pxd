from libc.stdint cimport int64_t

from collalgo._kernels.comm.pthreads cimport pthread_cond_t
from collalgo._kernels.comm.task cimport Task
from collalgo._kernels.comm.waiting cimport WaitableQueue


cdef class Progress(WaitableQueue):
    cdef object thread
    cdef pthread_cond_t arrived
    cdef int64_t submitted, due  # time of the last call; when the thread runs the first
    cdef int64_t held_until  # when it does so without catch_up()
    cdef int64_t last_held  # time of the last held call
    cdef int64_t wakes  # next poll of the thread
    cdef readonly bint used
    cdef object failed  # the first call that has failed, as leftovers() returns it
    cdef bint is_known  # whether a caller has taken the error of a call

    cdef inline bint is_taken(self, str call) except -1:
        """Whether another thread is in a call in the foreground, or waits for its turn."""
        if self.caller == 0:
            return self.transport.busy and not self.used
        return self.check_other_thread(call)

    cdef int submit(self, Task task) except -1
    cdef bint await_call(self, bint tidy) noexcept nogil
    cdef int64_t next_poll(
        self, int64_t now, int64_t release, int64_t *pause
    ) noexcept nogil
    cdef void sleep_until_wake(self) noexcept nogil
    cdef void wake_if_late(self) noexcept nogil
