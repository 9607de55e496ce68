# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls of several programs, each of which needs what the one before has received."""

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.comm.work cimport Work
from collalgo._kernels.engine.program cimport Program

from functools import partial

import numpy as np

from collalgo._kernels.engine.transport.transport import PART_OF_NEXT


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
    """End a call by a function, whose result is that of the call unless it has one."""
    found = rest()
    if work.value is None:
        work.value = found


def run_then(
    CallRunner runner, Program program, source, target, timeout, str caller, rest,
    bint at_once=False
):
    """Run a program of the library before a call, then make the call by ``rest()``.

    In the background ``rest`` is called after the program, and its calls are this one.

    Parameters
    ----------
    runner : CallRunner
        Of the communicator.
    program, source, target, timeout, caller
        As of :meth:`Runner.run_for`; the program counts as a part of the next call.
    rest : callable
        Makes the call, and returns its result.
    at_once
        Run the program now, although the call is prepared for the background.

    Returns
    -------
    object
        What ``rest`` returns; None in the background.
    """
    cdef double waiting = (<object>runner).waiting(timeout)
    if at_once or not runner.is_preparing() or runner.prepared.repeats:
        runner.run_now(program, source, target, waiting, caller)
        return counted(runner, rest)
    runner.prepared.continues = True
    then = partial(continue_call, runner, runner.prepared, rest)
    run_first(runner, program, source, target, waiting, caller, then)
    return None


cdef object counted(CallRunner runner, rest):
    """Make a call by ``rest()``, and count it if that raises before its program.

    A recorded call in the background has been counted; the preparation of a persistent
    one does not count.
    """
    cdef int64_t calls = runner.recorder.calls
    cdef bint repeats = runner.is_preparing() and runner.prepared.repeats
    host = getattr(runner.transport, "shared", runner.transport)
    number = None if host.closed else host.number
    try:
        return rest()
    except BaseException:
        if runner.recorder.calls == calls and not (repeats or runner.is_continuing()):
            runner.recorder.calls += 1
        if not (repeats or host.closed) and host.number == number:
            host.number = number + 1
        raise


def continue_call(CallRunner runner, Work work, rest):
    """Make a call that is in its turn in this thread."""
    runner.continued = partial(run_part, runner, work)
    runner.continuer = <unsigned long>PyThread_get_thread_ident()
    try:
        return counted(runner, rest)
    finally:
        runner.continued = None


def run_part(
    CallRunner runner, Work work, Program program, source, target, double waiting,
    str caller
):
    """Run a program as a part of a call whose turn it is, and return 0."""
    continued, runner.continued = runner.continued, None  # not for a call by an op
    program.users += 1  # first, since the change may run other threads
    try:
        runner.recorder.change(work.sequence, program)
        runner.run(program, source, target, waiting, caller)
    finally:
        program.users -= 1
        runner.continued = continued
    return 0


def after_exchange(
    CallRunner runner, mine, str caller, timeout, rest, bint at_once=False
):
    """Exchange an array with all ranks, then make the call by ``rest(all_arrays)``.

    Parameters
    ----------
    mine : ndarray
        The array of this rank; on each rank of the same shape.
    runner, caller, timeout, rest, at_once
        As of :func:`run_then`.
    """
    found = np.empty((runner.size, *mine.shape), mine.dtype)
    program = (<object>runner).programs.exchange_for(caller, mine.nbytes, PART_OF_NEXT)
    then = partial(rest, found)
    return run_then(runner, program, mine, found, timeout, caller, then, at_once)
