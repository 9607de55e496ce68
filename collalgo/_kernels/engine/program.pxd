cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.rows cimport array_bounds
from collalgo._kernels.engine.steps cimport Steps
from collalgo._kernels.engine.transport.transport cimport (
    Transport,
    call_record,
    step_log,
)

cdef extern from "Python.h":
    ctypedef struct PyThreadState:
        pass

cdef enum:
    BUSY = -1  # another call is under way
    INTERRUPTED = -100  # by a signal, whose exception is set; also the result of `run`



@cython.final
cdef class Program(Steps):
    cdef readonly str algorithm  # its whole name
    cdef readonly tuple counts  # the elements of each block, as they were passed
    cdef int64_t itemsize, shares, fingerprint
    cdef int64_t called, each, nbytes  # of the latest length, and its pieces
    cdef bint counts_elements  # whether the ranks compare the elements of the length
    cdef int64_t users  # the calls that are prepared or under way
    cdef PyThreadState *thread  # the running thread, while it has released the GIL
    cdef bint has_gil, brief
    cdef void *source  # the arrays of a run, owned by its caller
    cdef void *target
    cdef void *scratch
    cdef object pins
    cdef call_record record
    cdef int64_t[2] passed  # the first and the end of these blocks, if there are counts
    cdef int fill_counts(self, const buffer_length *length, tuple counts) except -1
    cdef bint has_length(self, const buffer_length *length) noexcept nogil
    cpdef int run(
        self, Transport transport, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double timeout
    ) except -100
    cdef int run_without_gil(
        self, Transport transport, const array_bounds *arrays, double timeout
    ) noexcept nogil
    cdef void release_gil(self) noexcept nogil
    cdef int execute(self, Transport transport, double timeout) noexcept nogil
    cdef int run_logged(
        self, Transport transport, int64_t step, step_log *log
    ) noexcept nogil
    cdef int settle(self, Transport transport) noexcept nogil
