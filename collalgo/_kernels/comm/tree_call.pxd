cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.comm.reducing cimport Reducing


cdef class TreeCall:
    cdef Reducing runner
    cdef str name
    cdef object buf, keys, algorithm
    cdef list sources, targets, names
    cdef bint reduces, is_plain, is_mixed

    cdef str place_of(self, int64_t number)
    cdef object write_to(self, buf, out)
    cdef int check_targets(self, str word) except -1
    cdef int check_shared(self, str word) except -1
    cdef list messages(self)
    cdef str text_of(self, list places)
    cdef str text_of_all(self, int64_t first)
    cdef bytes counts_of(self, list places)
    cdef object part(self, list places, bint is_first)
    cdef cnp.ndarray buffer_for(self, list places)
    cdef int in_place(self, call, bint reads, bint writes) except -1
    cdef bint is_deferred(self) except -1
    cdef object later(self, function, tuple args)


cdef int run_between(CallRunner runner, make, before, after) except -1
cdef bint must_be_later(CallRunner runner, list arrays, str name) except -1
cdef int check_written(cnp.ndarray array, str word, str name, str caller) except -1
