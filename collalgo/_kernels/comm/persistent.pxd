from collalgo._kernels.comm.work cimport Work


cdef class Persistent(Work):
    cdef int check_idle(self) except -1
