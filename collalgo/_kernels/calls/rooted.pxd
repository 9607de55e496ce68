from collalgo._kernels.calls.sharing cimport Sharing


cdef class Rooted(Sharing):
    cdef tuple taken(self, like, buf, out, root, str caller)
