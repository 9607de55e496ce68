from collalgo._kernels.engine.program cimport Program


cdef int check_op(
    runner, run, Program program, double waiting, str caller
) except -1
