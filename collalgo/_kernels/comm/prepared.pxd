cimport numpy as cnp

from collalgo._kernels.comm.progress cimport Progress
from collalgo._kernels.comm.task cimport Task
from collalgo._kernels.engine.program cimport Program


cdef class PreparedCall(Task):
    cdef object owner, value, failure, handle_status, pending_call
    cdef Progress progress
    cdef object before, after  # called with the GIL when the call runs
    cdef object pins
    cdef list followers  # programs that run after the first
    cdef cnp.ndarray source, target, packed_source, packed_target, scratch
    cdef bint is_packed  # whether the program runs on copies
    cdef bint repeats  # whether it is made many times
    cdef bint uses  # whether its program must not be filled in again

    cdef int add(self, before, after) except -1
    cdef int check_open(self) except -1
    cdef int check_turn(self) except -1
    cdef int prepare(
        self, Program program, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double waiting
    ) except -1
    cdef int follow(self, Program program, source, target, double waiting) except -1
    cdef int prepare_on_device(
        self, pending_call, cnp.ndarray scratch, double waiting
    ) except -1
    cdef int find_arrays(self) except -1
    cdef int pack(self) except -1
    cdef void keep_arrays(self) noexcept
    cdef void release_programs(self) noexcept
    cdef int fail(self, error) except -1
    cdef int complete(self) except -100
    cdef int raise_status(self, int status) except -1
