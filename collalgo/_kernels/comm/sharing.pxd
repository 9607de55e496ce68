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
    cdef object all_counts(self, counts, receive_counts, timeout)
    cdef int barrier(self, algorithm, timeout) except -1
    cdef list gather_rows(self, rows, str caller, timeout)
    cdef list lengths(self, cnp.ndarray source, counts, str caller, timeout)
    cdef tuple joined(self, buf, cnp.ndarray source, list counts, out, str caller)
