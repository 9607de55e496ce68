cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.comm.sharing cimport Sharing


cdef class Rooted(Sharing):
    cdef object gather(self, buf, root, out, algorithm, timeout)
    cdef object gatherv(self, buf, counts, root, out, algorithm, timeout)
    cdef object scatter(self, buf, root, out, algorithm, timeout)
    cdef object scatterv(self, buf, counts, root, out, algorithm, timeout)
    cdef object scatter_blocks(
        self, buf, cnp.ndarray source, list counts, int64_t number, out, algorithm, timeout
    )
    cdef list scattered(self, rows, counts, int64_t root)
    cdef object keep_row(self, buf, cnp.ndarray source, mine, out)
    cdef object keep(self, buf, cnp.ndarray source, part, out, str caller)
