from collalgo._kernels.calls.sharing cimport Sharing


cdef class Rooted(Sharing):
    pass
