from collalgo._kernels.engine.engine cimport Program


cdef int check_op(runner, Program program, double waiting, str caller) except -1
