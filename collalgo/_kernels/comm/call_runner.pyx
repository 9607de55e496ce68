# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Run calls: find the program of a call and run it.

Most calls have the same arguments as the call before, the very same objects, but for
their length: they need no look-up by objects and no allocation.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from sys import exc_info
from threading import Lock

import numpy as np

from collalgo._kernels.comm.arrays cimport is_on_device, size_of
from collalgo._kernels.engine.program cimport BUSY, Program
from collalgo._kernels.comm.last_call cimport LastCall, is_like
from collalgo._kernels.comm.op_check cimport check_op
from collalgo._kernels.comm.progress cimport Progress
from collalgo._kernels.comm.recorder cimport Recorder
from collalgo._kernels.engine.rows cimport NEEDS_SCRATCH
from collalgo._kernels.engine.transport.transport cimport CLOSED, GO_ON, Transport
from collalgo._kernels.comm.persistent cimport Persistent
from collalgo._kernels.comm.work cimport Work

from collalgo.bootstrap.timeouts import seconds as seconds_of
from collalgo.comm.failures import in_signal_handler
from collalgo.engine.call import Call, Part

cnp.import_array()
cdef object NO_DTYPE = np.dtype(np.uint8), PART = Part
cdef cnp.ndarray NO_SCRATCH = np.empty(0, np.uint8)  # until a program needs more


cdef inline object dtype_of(cnp.ndarray like):
    return NO_DTYPE if like is None else <object>cnp.PyArray_DESCR(like)


cdef class CommunicatorBase:
    """A communicator, or the runner inside it: what collectives take as ``comm``.

    Parameters
    ----------
    runner : CallRunner
        Runs the calls of the communicator.
    """

    def __init__(self, CallRunner runner):
        self.rank, self.size = runner.rank, runner.size
        self._runner = runner


cdef class CallRunner(CommunicatorBase):
    """Runs the calls of one rank of a communicator.

    Parameters
    ----------
    transport : Transport
        This rank's end of the channels to the others.
    find_kind : callable
        Returns the kind of a :class:`collalgo.engine.call.Call`.
    handle_status : callable
        Called with the arguments of :meth:`run`, a status other than GO_ON, that
        method, and whether the call is in the foreground.
    interrupted : callable
        Called with the name of a call and the exception that interrupted it.
    seconds : float
        The timeout of a call in seconds; negative for none.

    Attributes
    ----------
    hosts : tuple of int
        The number of the host of each rank.
    """

    def __init__(
        self, Transport transport, find_kind, handle_status, interrupted, double seconds
    ):
        self.transport, self.rank, self.size = transport, transport.rank, transport.size
        self.find_kind, self.handle_status = find_kind, handle_status
        self.interrupted, self.seconds, self.last = interrupted, seconds, {}
        self.hosts, self.scratch = (0,) * self.size, NO_SCRATCH
        self.recorder, self.lock = Recorder(), Lock()
        self.progress = Progress(transport, interrupted, self.recorder)

    cdef int call(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, cnp.ndarray like, op=None, int64_t root=0, int64_t count=-1,
        counts=None, reproducible=False, str caller=None
    ) except -1:
        """Make a call; ``like`` has its dtype, and its count by default."""
        # Long: the way of every call, without a call of Python.
        cdef object part = algorithm if type(algorithm) is PART else None
        if part is not None:
            algorithm = part.algorithm
        cdef LastCall last = self.latest
        cdef object dtype = dtype_of(like)
        cdef double waiting = self.seconds if timeout is None else seconds_of(timeout)
        count = size_of(like) if count < 0 else count
        caller = collective if caller is None else caller
        if is_on_device(source) or is_on_device(target):
            fields = collective, dtype, count, op, root, algorithm, counts, reproducible
            fields += (part and part.text,)
            return self.call_on_devices(fields, source, target, waiting, caller)
        if last is None or last.collective is not collective:
            last = self.latest = self.last.get(collective)
        if not is_like(
            last, collective, dtype, op, root, algorithm, counts, reproducible
        ):
            last = self.find_call(
                collective, dtype, op, root, algorithm, counts, reproducible
            )
        program = last.kind.program(count, counts) if part is None else (
            last.kind.program_named(count, counts, part.text, part.counted, True)
        )
        return run_or_prepare(self, program, source, target, waiting, caller)

    cdef bint again(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, op, int64_t root, reproducible
    ) except -1:
        """Make a call that differs from the last one at most in its length, else False.

        That one had the same dtype and op, so nothing has to be converted."""
        cdef LastCall last = self.latest
        cdef object dtype = dtype_of(source)
        if is_on_device(source) or is_on_device(target) or not is_like(
            last, collective, dtype, op, root, algorithm, None, reproducible
        ):
            return False
        cdef double waiting = self.seconds if timeout is None else seconds_of(timeout)
        cdef Program program = last.kind.program(size_of(source), None)
        run_or_prepare(self, program, source, target, waiting, collective)
        return True

    cdef LastCall find_call(
        self, str collective, dtype, op, int64_t root, algorithm, counts,
        reproducible
    ):
        """Find the kind of a call that differs from the last one."""
        cdef LastCall call = LastCall()
        self.check_open(collective)  # first, since a choice takes time
        call.kind = self.find_kind(
            Call(collective, dtype, 0, op, root, algorithm, counts, reproducible)
        )
        call.collective, call.dtype, call.op, call.root = collective, dtype, op, root
        call.algorithm, call.reproducible = algorithm, reproducible
        call.has_counts = counts is not None
        if not isinstance(algorithm, list):  # whose items may change
            self.last[collective] = self.latest = call
        return call

    def submit(self, str name, call, bint persistent=False, before=None, after=None):
        """Prepare a call and, unless it is persistent, make it in the background.

        ``call()`` prepares it. ``before`` runs in its turn, and ``after`` when it has
        succeeded, before the next call begins.
        """
        kind = Persistent if persistent else Work
        cdef Work work = kind(self, name, self.progress, self.handle_status)
        work.check_open()
        if self.is_preparing():  # code of an array makes this call
            raise in_signal_handler(self.rank, name)
        with self.lock:
            self.prepared, self.preparer = work, <unsigned long>PyThread_get_thread_ident()
            try:
                work.value = call()
            finally:
                self.prepared = None
            work.add(before, after)
            if not persistent:
                work.check_turn()
                self.progress.submit(work)
        return work

    def run_again(self, Work work):
        """Make a prepared call in the foreground."""
        run_in_turn(
            self, work.program, work.source, work.target, work.waiting, work.name, None
        )

    def run_now(self, Program program, source, target, double waiting, str caller):
        """Run a program after all calls in the background."""
        run_in_turn(self, program, source, target, waiting, caller, None)

    cdef int call_on_devices(
        self, tuple fields, cnp.ndarray source, cnp.ndarray target, double waiting,
        str caller
    ) except -1:
        """Make a call on arrays on devices, on their streams."""
        cdef bint background = self.is_preparing()
        pending_call = self.devices.begin(
            fields, source, target, waiting, caller, background
        )
        if background:
            scratch = self.scratch_for(pending_call.exchange)
            return self.prepared.prepare_on_device(pending_call, scratch, waiting)
        return run_in_turn(
            self, pending_call.exchange, pending_call.mine, pending_call.everyone,
            waiting, caller, pending_call,
        )

    cdef cnp.ndarray scratch_for(self, Program program):
        if cnp.PyArray_NBYTES(self.scratch) < program.scratch_bytes:
            self.scratch = np.empty(program.scratch_bytes, np.uint8)
        return self.scratch

    def run(
        self, Program program, source, target, double waiting, str caller,
        bint in_foreground=False,
    ):
        """Run a program now, within a call whose turn it is."""
        return run_once(self, program, source, target, waiting, caller, in_foreground)


cdef inline int run_or_prepare(
    CallRunner runner, Program program, cnp.ndarray source, cnp.ndarray target,
    double waiting, str caller
) except -1:
    """Run a program after all earlier calls, or let the prepared call run it."""
    if runner.is_preparing():
        return runner.prepared.prepare(
            program, source, target, runner.scratch_for(program), waiting
        )
    return run_in_turn(runner, program, source, target, waiting, caller, None)


cdef inline int run_once(
    CallRunner runner, Program program, cnp.ndarray source, cnp.ndarray target,
    double waiting, str caller, bint in_foreground
) except -1:
    """Run a program, and handle its status unless it succeeded."""
    cdef int status
    cdef bint is_interrupted = True
    try:
        status = program.run(runner.transport, source, target, runner.scratch, waiting)
        if status == NEEDS_SCRATCH:
            scratch = runner.scratch_for(program)
            status = program.run(runner.transport, source, target, scratch, waiting)
        if status != GO_ON:  # a signal explains the status
            PyErr_CheckSignals()
        is_interrupted = False
    finally:  # which costs less than a handler
        if is_interrupted:
            runner.interrupted(caller, exc_info()[1])
    if status != GO_ON:
        runner.handle_status(
            program, source, target, waiting, caller, status, runner.run, in_foreground
        )
    if program.is_python_op:
        check_op(runner, program, waiting, caller, in_foreground)
    return 0


cdef inline int run_in_turn(
    CallRunner runner, Program program, cnp.ndarray source, cnp.ndarray target,
    double waiting, str caller, pending_call
) except -1:
    """Run a program after all calls in the background."""
    cdef Progress progress = runner.progress
    cdef bint reserved = False
    if runner.is_continuing():
        return runner.continued(program, source, target, waiting, caller)
    if progress.is_taken(caller):
        runner.handle_status(program, None, None, -1, caller, BUSY, None)
    progress.caller = <unsigned long>PyThread_get_thread_ident()
    program.users += 1  # so that no other call fills it in
    try:
        if progress.used:
            progress.reserve()
            reserved = True
        run_recorded(runner, program, source, target, waiting, caller, pending_call)
    finally:
        program.users -= 1
        progress.caller = 0
        if reserved:
            progress.release()
    return 0


cdef inline int run_recorded(
    CallRunner runner, Program program, cnp.ndarray source, cnp.ndarray target,
    double waiting, str caller, pending_call
) except -1:
    """Run a program, and continue a pending call on devices, as one call."""
    cdef int64_t sequence = runner.recorder.enter(program, None)
    cdef int status = CLOSED  # until all has succeeded
    if runner.transport.log != NULL:
        runner.transport.log.call = sequence
    try:
        run_once(runner, program, source, target, waiting, caller, True)
        if pending_call is not None:
            pending_call.enqueue()
        status = GO_ON
    finally:
        runner.recorder.end(sequence, status)
    return 0
