# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The log of the steps of calls, for traces."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.comm.clock cimport Clock
from collalgo._kernels.engine.transport.transport cimport step_time


cdef class StepLog:
    """Logs the begin and the end of the steps of a rank's calls.

    Parameters
    ----------
    runner : CallRunner
        Runs the calls of the rank; it must be idle when the log ends.
    calls, steps : int
        The most calls and steps that are logged.
    """

    def __init__(self, CallRunner runner, int64_t calls, int64_t steps):
        self.log.steps = <step_time *>PyMem_Calloc(steps, sizeof(step_time))
        if self.log.steps == NULL:
            raise MemoryError
        self.log.capacity = steps
        self.transport = runner.transport
        runner.progress.reserve()
        try:
            runner.recorder.grow(calls)
            self.transport.log = &self.log
        finally:
            runner.progress.release()

    def __dealloc__(self):
        if self.transport is not None and self.transport.log == &self.log:
            self.transport.log = NULL
        PyMem_Free(self.log.steps)

    def end(self):
        """Stop: call, slice, step, begin and end of each step, and the number lost."""
        cdef Clock clock = Clock()
        cdef step_time note
        cdef int64_t i, kept = min(self.log.count, self.log.capacity)
        self.transport.log = NULL
        rows = []
        for i in range(kept):
            note = self.log.steps[i]
            times = clock.time(note.begun), clock.time(note.ended)
            rows.append((note.call, note.slice, note.step, *times))
        return rows, self.log.count - kept
