from collalgo._kernels.comm.sharing cimport Sharing


cdef class Rooted(Sharing):
    cdef object gather(self, buf, root, out, algorithm, timeout)
    cdef object gatherv(self, buf, counts, root, out, algorithm, timeout)
    cdef object scatter(self, buf, root, out, algorithm, timeout)
    cdef object scatterv(self, buf, counts, root, out, algorithm, timeout)
    cdef object keep(self, mine, out, str caller)
