cimport cython
cimport numpy as cnp
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.comm.last_call cimport LastCall
from collalgo._kernels.comm.progress cimport Progress
from collalgo._kernels.comm.recorder cimport Recorder
from collalgo._kernels.engine.transport.transport cimport Transport
from collalgo._kernels.comm.work cimport Work


cdef class CallRunner


cdef class CommunicatorBase:
    cdef readonly int64_t rank, size
    cdef readonly CallRunner _runner  # None in a runner itself


cdef class CallRunner(CommunicatorBase):
    cdef public double seconds
    cdef public tuple hosts
    cdef readonly Progress progress
    cdef readonly Recorder recorder
    cdef Transport transport
    cdef object find_kind, handle_status, interrupted, lock
    cdef cnp.ndarray scratch
    cdef dict last  # by collective
    cdef LastCall latest  # of them all
    cdef Work prepared
    cdef unsigned long preparer
    cdef object continued  # runs a program as a part of a call in the background
    cdef unsigned long continuer

    cdef int call(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, cnp.ndarray like, op=*, int64_t root=*, int64_t count=*, counts=*,
        reproducible=*, str caller=*
    ) except -1
    cdef bint again(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, op, int64_t root, reproducible
    ) except -1

    @cython.final
    cdef inline int move(
        self, str collective, cnp.ndarray source, cnp.ndarray target, timeout,
        algorithm, int64_t root
    ) except -1:
        """Make a call that moves elements unchanged, and of which all ranks pass as many."""
        if self.again(
            collective, source, target, timeout, algorithm, None, root, False
        ):
            return 0
        return self.call(
            collective, source, target, timeout, algorithm, source, None, root
        )

    cdef LastCall find_call(
        self, str collective, dtype, op, int64_t root, algorithm, counts,
        reproducible
    )
    cdef cnp.ndarray scratch_for(self, Program program)

    cdef inline bint is_preparing(self) noexcept:
        """Whether this thread prepares a call for the background."""
        return (
            self.prepared is not None
            and self.preparer == <unsigned long>PyThread_get_thread_ident()
        )

    cdef inline bint is_continuing(self) noexcept:
        """Whether this thread makes a call whose first part has run in the background."""
        return (
            self.continued is not None
            and self.continuer == <unsigned long>PyThread_get_thread_ident()
        )

    cdef int call_on_devices(
        self, tuple fields, cnp.ndarray source, cnp.ndarray target, double waiting,
        str caller
    ) except -1
