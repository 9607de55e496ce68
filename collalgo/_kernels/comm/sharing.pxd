cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CallRunner


cdef class Sharing(CallRunner):
    cdef int64_t root_of(self, root, str caller) except -1
    cdef object broadcast(self, buf, root, algorithm, timeout)
    cdef object allgather(self, buf, out, algorithm, timeout)
    cdef object allgatherv(self, buf, counts, out, algorithm, timeout)
    cdef object alltoall(self, buf, out, algorithm, timeout)
    cdef object alltoallv(
        self, buf, counts, receive_counts, out, algorithm, timeout
    )
    cdef object alltoall_table(self, buf, counts, out, algorithm, timeout)
    cdef int check_row(self, table, int64_t rows) except -1
    cdef int barrier(self, algorithm, timeout) except -1
    cdef object after_lengths(self, cnp.ndarray source, str caller, timeout, rest)
    cdef list checked_lengths(self, cnp.ndarray source, counts, str caller)
    cdef tuple joined(self, buf, cnp.ndarray source, list counts, out, str caller)
