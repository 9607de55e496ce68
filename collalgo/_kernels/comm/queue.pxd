from libc.stdint cimport int64_t
from posix.time cimport clockid_t

from collalgo._kernels.engine.engine cimport Program
from collalgo._kernels.comm.pthreads cimport pthread_cond_t, pthread_mutex_t
from collalgo._kernels.comm.recorder cimport CallSite, Recorder
from collalgo._kernels.engine.rows cimport array_bounds
from collalgo._kernels.engine.transport.transport cimport Transport

cdef enum:
    PENDING = -50  # the status of a call that has not ended


cdef class Task:
    cdef readonly str name
    cdef CallSite site
    cdef list callbacks
    cdef Program program
    cdef array_bounds arrays
    cdef clockid_t caller  # of the processor time of the thread that made it
    cdef double waiting  # seconds for the others to come; negative for ever
    cdef int status
    cdef int64_t number
    cdef bint packs  # whether its beginning needs the GIL
    cdef bint settles  # whether its end does
    cdef bint watched  # whether there are callbacks
    cdef Task next

    cdef bint is_short(self) noexcept
    cdef int begin(self) noexcept
    cdef int settle(self, int status) except -100
    cdef void unpin(self) noexcept


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
    cdef Recorder recorder

    cdef int append(self, Task task) except -1
    cdef void arrive(self, bint short) noexcept nogil
    cdef void hasten(self) noexcept nogil
    cdef void rouse(self) noexcept nogil
    cdef void let_go(self) noexcept nogil
    cdef int perform_next(self, bint gives_way) noexcept nogil
    cdef int perform(self, void *task, bint gives_way) noexcept nogil
    cdef bint end(self, void *task, int status, bint with_gil) noexcept nogil
    cdef void end_with_gil(self, Task task, int status)
    cdef int prune(self) except -1
    cdef int reserve(self) except -1
    cdef bint try_reserve(self) noexcept nogil
    cdef void release(self) noexcept nogil
    cdef bint await_end(self, Task task, double seconds) except -1
    cdef int help_until(self, void *task) noexcept nogil
    cdef void doze(self, void *task, double seconds) noexcept nogil
    cdef int raise_interrupted(self) except -1
    cdef bint is_over(self)
    cdef bint watch(self, Task task, callback) except -1
