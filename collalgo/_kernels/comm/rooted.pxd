from collalgo._kernels.comm.sharing cimport Sharing


cdef class Rooted(Sharing):
    cdef object keep(self, mine, out, str caller)
