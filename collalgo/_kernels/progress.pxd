cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.engine cimport Program, array_bounds
from collalgo._kernels.recorder cimport CallSite, Recorder
from collalgo._kernels.transport cimport Transport

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass


cdef class Work:
    cdef object __weakref__
    cdef readonly str name
    cdef CallSite site
    cdef object owner, value, failure, cope, underway
    cdef list callbacks
    cdef Progress progress
    cdef Program program
    cdef array_bounds arrays
    cdef cnp.ndarray source, target, packed_source, packed_target, scratch
    cdef double waiting
    cdef int status
    cdef int64_t number
    cdef bint watched
    cdef Work next

    cdef int prepare(
        self, Program program, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double waiting
    ) except -1
    cdef int prepare_on_device(
        self, underway, cnp.ndarray scratch, double waiting
    ) except -1
    cdef bint is_short(self) noexcept
    cdef int pack(self) except -1
    cdef int settle(self, int status) except -100
    cdef bint await_device(self, bint forever, double deadline) except -1
    cdef object outcome(self)


cdef class Persistent(Work):
    cdef int check_idle(self) except -1


cdef class Progress:
    cdef Transport transport
    cdef object interrupted, thread, kept
    cdef pthread_mutex_t mutex
    cdef pthread_cond_t arrived, ended
    cdef void *first
    cdef void *current
    cdef Work last
    cdef int64_t waiting  # calls that have not begun
    cdef int64_t submitted, due  # the last, and when the thread is to run the first
    cdef bint running, closing
    cdef bint watching  # whether the thread will soon look by itself
    cdef Recorder recorder
    cdef readonly bint used

    cdef int submit(self, Work work) except -1
    cdef bint await_call(self, bint tidy) noexcept nogil
    cdef void hasten(self) noexcept nogil
    cdef void rouse(self) noexcept nogil
    cdef int perform_next(self, bint gives_way) noexcept nogil
    cdef bint end(self, void *work, int status, bint with_gil) noexcept nogil
    cdef void end_with_gil(self, Work work, int status)
    cdef int prune(self) except -1
    cdef int reserve(self) except -1
    cdef bint try_reserve(self) noexcept nogil
    cdef void release(self) noexcept nogil
    cdef bint await_end(self, Work work, double seconds) except -1
    cdef int help_until(self, void *work) noexcept nogil
    cdef void doze(self, void *work, double seconds) noexcept nogil
    cdef int raise_interrupted(self) except -1
