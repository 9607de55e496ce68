from cpython.object cimport Py_TYPE, PyTypeObject
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.rooted cimport Rooted


cdef class CollectiveRunner(Rooted):
    cdef object allreduce(self, buf, op, out, algorithm, bint reproducible, timeout)
    cdef object reduce(self, buf, op, root, out, algorithm, bint reproducible, timeout)
    cdef object reduce_scatter(
        self, buf, op, counts, out, algorithm, bint reproducible, timeout
    )
    cdef list shares(self, int64_t rows, counts)
    cdef object prefix(self, str name, buf, op, out, algorithm, timeout)


cdef CollectiveRunner find_runner(comm)


cdef inline CollectiveRunner runner_of(comm):
    """The runner of a communicator; None stands for the current communicator."""
    if Py_TYPE(comm).tp_base == <PyTypeObject *>CommunicatorBase:  # the usual class
        runner = (<CommunicatorBase>comm)._runner
        if runner is not None:
            return <CollectiveRunner>runner
    return find_runner(comm)
