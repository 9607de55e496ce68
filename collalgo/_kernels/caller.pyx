# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""From a call to its program, and through it, as fast as Python lets us.

Most calls have the arguments of the call before, the very same objects: for them
nothing is looked up, and nothing is allocated.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

import numpy as np

from collalgo._kernels.engine cimport Program
from collalgo._kernels.transport cimport GO_ON, Transport

from collalgo._kernels.engine import RUN_NEEDS_SCRATCH
from collalgo.connection import seconds as seconds_of

cnp.import_array()

cdef int NEEDS_SCRATCH = RUN_NEEDS_SCRATCH
cdef object NO_DTYPE = np.dtype(np.uint8)


cpdef bint apart(cnp.ndarray a, cnp.ndarray b):
    """Whether two arrays surely share no memory: contiguous, one behind the other."""
    cdef char *first = cnp.PyArray_BYTES(a)
    cdef char *second = cnp.PyArray_BYTES(b)
    return (
        cnp.PyArray_ISONESEGMENT(a) and cnp.PyArray_ISONESEGMENT(b)
        and (first + cnp.PyArray_NBYTES(a) <= second
             or second + cnp.PyArray_NBYTES(b) <= first)
    )


def alike(cnp.ndarray a, cnp.ndarray b):
    """Whether two arrays surely have one dtype and shape, and memory of their own."""
    return (
        cnp.PyArray_DESCR(a) is cnp.PyArray_DESCR(b) and cnp.PyArray_SAMESHAPE(a, b)
        and apart(a, b)
    )


cdef class LastCall:
    """The arguments of the last call of a collective, and the program that it ran."""
    cdef object dtype, op, algorithm, counts
    cdef int64_t count, root
    cdef bint reproducible
    cdef Program program


cdef class Caller:
    """One rank's calls of a communicator.

    Parameters
    ----------
    transport : Transport
        This rank's end of the channels to the others.
    find : callable
        The program for collective, dtype, count, op, root, algorithm, counts and
        whether the result is to be reproducible.
    cope : callable
        Called with what :meth:`_run` takes, the status that is not RUN_DONE, and that
        method.
    interrupted : callable
        Called with the name of a call and the exception that has come up in it.
    seconds : float
        How long a call waits for the other ranks; negative for ever.
    """
    cdef readonly int64_t rank, size
    cdef public double seconds
    cdef Transport transport
    cdef object find, cope, interrupted
    cdef cnp.ndarray scratch
    cdef dict last

    def __init__(
        self, Transport transport, find, cope, interrupted, double seconds
    ):
        self.rank, self.size = transport.rank, transport.size
        self.transport = transport
        self.find, self.cope, self.interrupted = find, cope, interrupted
        self.seconds = seconds
        self.scratch = np.empty(0, np.uint8)
        self.last = {}

    def _call(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, *, cnp.ndarray like=None, int64_t count=-1, op=None,
        int64_t root=0, counts=None, bint reproducible=False, str caller=None
    ):
        """Make a call; ``like`` has its dtype and its count unless that is given."""
        cdef LastCall last = self.last.get(collective)
        cdef object dtype = NO_DTYPE
        if like is not None:
            dtype = <object>cnp.PyArray_DESCR(like)
        if count < 0:
            count = 0 if like is None else cnp.PyArray_SIZE(like)
        if (
            last is None or last.dtype is not dtype or last.count != count
            or last.op is not op or last.root != root
            or last.algorithm is not algorithm or last.counts is not counts
            or last.reproducible != reproducible
        ):
            last = LastCall()
            last.program = self.find(
                collective, dtype, count, op, root, algorithm, counts, reproducible
            )
            last.dtype, last.count, last.op, last.root = dtype, count, op, root
            last.algorithm, last.counts = algorithm, counts
            last.reproducible = reproducible
            if not isinstance(algorithm, list):  # which may be another the next time
                self.last[collective] = last
        self._run(
            last.program, source, target,
            self.seconds if timeout is None else seconds_of(timeout),
            collective if caller is None else caller,
        )

    cpdef _run(
        self, Program program, cnp.ndarray source, cnp.ndarray target, double waiting,
        str caller
    ):
        """Run a program, and cope with what becomes of it."""
        cdef int status
        try:
            status = program.run(self.transport, source, target, self.scratch, waiting)
            if status == NEEDS_SCRATCH:
                self.scratch = np.empty(program.scratch_bytes, np.uint8)
                status = program.run(
                    self.transport, source, target, self.scratch, waiting
                )
            if status != GO_ON:  # a signal goes before what it has brought about
                PyErr_CheckSignals()
        except BaseException as error:
            self.interrupted(caller, error)
            raise
        if status != GO_ON:
            self.cope(program, source, target, waiting, caller, status, self._run)
