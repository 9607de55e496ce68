# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The end of a call whose op may have raised."""

from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.reduction.user_op cimport PythonReduction

from collalgo.comm.op_failures import agree


cdef int check_op(
    runner, run, Program program, double waiting, str caller
) except -1:
    """Raise the error that the op of a program has raised on one rank, on all ranks."""
    failure = (<PythonReduction>program.reduction).take_failure()
    agree(runner, run, failure, waiting, caller)
    return 0
