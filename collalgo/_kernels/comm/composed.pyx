# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls of several programs, each of which needs what the one before has received."""

from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.comm.work cimport Work
from collalgo._kernels.engine.program cimport Program

from functools import partial


def run_first(
    CallRunner runner, Program program, source, target, double waiting, str caller, rest
):
    """Run the first program of a call, or let the background run the whole call.

    Parameters
    ----------
    runner : CallRunner
        Of the communicator.
    program, source, target, waiting, caller
        As of :meth:`CallRunner.run`.
    rest : callable
        Runs the other programs by :meth:`CallRunner.run`, and returns the result of the
        call in the background.

    Returns
    -------
    bool
        Whether the call runs in the background.
    """
    if not runner.is_preparing():
        runner.run_now(program, source, target, waiting, caller)
        return False
    cdef Work work = runner.prepared
    work.prepare(program, source, target, runner.scratch_for(program), waiting)
    work.add(None, partial(end_by, work, rest))
    return True


def end_by(Work work, rest):
    """End a call by a function, whose result is that of the call."""
    work.value = rest()
