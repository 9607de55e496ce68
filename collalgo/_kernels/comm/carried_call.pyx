# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A call whose messages bypass the transport."""

from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.transport.transport cimport GO_ON, SIGNALS, Transport

from collalgo._kernels.engine.program import RUN_BUSY, RUN_DONE, RUN_FAILED


def run_carried(CallRunner runner, Program program, carry, double waiting):
    """Make the call of a program; another thread cannot call meanwhile.

    Parameters
    ----------
    runner : CallRunner
        Of the communicator.
    program : Program
        Has the record of the call, which the ranks compare.
    carry : callable
        Moves the messages, and returns whether the call goes on.
    waiting : float
        The timeout in seconds; negative for none.

    Returns
    -------
    int
        One of the RUN_ values.
    """
    cdef Transport transport = runner.transport
    cdef bint done = False
    cdef int status
    if transport.busy:
        return RUN_BUSY
    status = transport.enter(&program.record, waiting)
    if status != GO_ON:
        return status
    transport.busy = True
    try:
        done = carry()
    finally:
        transport.busy = False
        if done:
            transport.leave()
    if done:
        return RUN_DONE
    PyErr_CheckSignals()  # a signal explains the status
    return RUN_FAILED


def is_ready(CallRunner runner, query):
    """Wait in a carried call until ``query()`` is true: False if the call has failed."""
    cdef Transport transport = runner.transport
    cdef int64_t idle = 0
    cdef int status = GO_ON
    try:
        while status == GO_ON and not query():
            with nogil:
                status = transport.pause(&idle)
            if status == SIGNALS:
                run_handlers(transport)
                status = GO_ON
    finally:
        if idle:
            transport.resume()
    return status == GO_ON


cdef int run_handlers(Transport transport) except -1:
    """Run the handlers of signals that have arrived; a call in one is refused."""
    transport.handler = <unsigned long>PyThread_get_thread_ident()
    try:
        PyErr_CheckSignals()
    finally:
        transport.handler = 0
    return 0
