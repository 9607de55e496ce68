cimport numpy as cnp
from cpython.object cimport Py_TYPE, PyTypeObject
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.combining cimport Combining


cdef class Reducing(Combining):
    cdef object allreduce(self, buf, op, out, algorithm, reproducible, timeout)
    cdef object reduce(self, buf, op, root, out, algorithm, reproducible, timeout)
    cdef int reduce_to(
        self, str name, cnp.ndarray source, cnp.ndarray target, op, int64_t root,
        algorithm, reproducible, timeout
    ) except -1
    cdef object reduce_scatter(
        self, buf, op, counts, out, algorithm, reproducible, timeout,
        str caller=*
    )
    cdef object reduce_scatter_block(
        self, buf, op, out, algorithm, reproducible, timeout
    )
    cdef object reduce_scatterv(
        self, buf, op, counts, out, algorithm, reproducible, timeout
    )
    cdef object scatter_combined(
        self, buf, cnp.ndarray source, op, counts, out, algorithm, reproducible, timeout,
        str caller
    )
    cdef object scatter_converted(
        self, buf, tuple found, cnp.ndarray source, counts, out, algorithm, timeout,
        str caller
    )
    cdef tuple uneven_block(self, cnp.ndarray source, int64_t rows, counts, str caller)
    cdef object prefix(self, bint is_exclusive, buf, op, out, algorithm, timeout)
    cdef int set_identity(self, target, identity) except -1


cdef Reducing find_runner(comm)


cdef inline Reducing runner_of(comm):
    """The runner of a communicator; None is the current communicator."""
    if Py_TYPE(comm).tp_base == <PyTypeObject *>CommunicatorBase:  # the usual class
        runner = (<CommunicatorBase>comm)._runner
        if runner is not None:
            return <Reducing>runner
    return find_runner(comm)
