from libc.stdint cimport int64_t

from collalgo._kernels.comm.pthreads cimport pthread_cond_t, pthread_mutex_t
from collalgo._kernels.comm.recorder cimport Recorder
from collalgo._kernels.comm.task cimport Task
from collalgo._kernels.engine.transport.transport cimport Transport


cdef class Queue:
    cdef Transport transport
    cdef object interrupted, kept
    cdef pthread_mutex_t mutex
    cdef pthread_cond_t ended
    cdef void *first
    cdef void *current
    cdef Task last
    cdef int64_t waiting  # calls that have not begun
    cdef bint running, closing
    cdef unsigned long performer  # the thread that runs a call of the queue, or 0
    cdef Recorder recorder

    cdef int append(self, Task task) except -1
    cdef void arrive(self, bint short) noexcept nogil
    cdef void run_soon(self) noexcept nogil
    cdef void wake(self) noexcept nogil
    cdef void release_held(self) noexcept nogil
    cdef int perform_next(self, bint yields) noexcept nogil
    cdef int perform(self, void *task, bint yields) noexcept nogil
    cdef bint end(self, void *task, int status, bint with_gil) noexcept nogil
    cdef void end_with_gil(self, Task task, int status)
    cdef int prune(self) except -1
    cdef bint watch(self, Task task, callback) except -1
