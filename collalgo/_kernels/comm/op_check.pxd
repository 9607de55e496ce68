from collalgo._kernels.engine.program cimport Program


cdef int check_op(
    runner, Program program, double waiting, str caller, bint in_foreground
) except -1
