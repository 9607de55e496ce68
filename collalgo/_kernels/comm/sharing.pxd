cimport numpy as cnp

from collalgo._kernels.comm.caller cimport Caller


cdef class Sharing(Caller):
    cdef list lengths(self, cnp.ndarray source, counts, str caller, timeout)
    cdef tuple joined(self, cnp.ndarray source, list counts, out, str caller)
    cdef list told(self, rows, timeout)
