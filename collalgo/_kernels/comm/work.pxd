from collalgo._kernels.comm.prepared cimport PreparedCall


cdef class Work(PreparedCall):
    cdef object __weakref__

    cdef bint await_end(self, double seconds) except -1
    cdef bint await_device(self, bint forever, double deadline) except -1
    cdef object outcome(self)
