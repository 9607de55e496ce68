# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The end of a call whose op may have raised."""

from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.reduction.user_op cimport PythonReduction

from functools import partial

from collalgo.comm.op_failures import agree


cdef int check_op(
    runner, Program program, double waiting, str caller, bint in_foreground
) except -1:
    """Raise the error that the op of a program has raised on one rank, on all ranks."""
    failure = (<PythonReduction>program.reduction).take_failure()
    run = partial(runner.run, in_foreground=in_foreground)
    agree(runner, run, failure, waiting, caller)
    return 0
