from cpython.object cimport Py_TYPE, PyTypeObject

from collalgo._kernels.comm.call_runner cimport CommunicatorBase
from collalgo._kernels.comm.reducing cimport Reducing


cdef class CollectiveRunner(Reducing):
    pass


cdef CollectiveRunner find_runner(comm)


cdef inline CollectiveRunner runner_of(comm):
    """The runner of a communicator; None stands for the current communicator."""
    if Py_TYPE(comm).tp_base == <PyTypeObject *>CommunicatorBase:  # the usual class
        runner = (<CommunicatorBase>comm)._runner
        if runner is not None:
            return <CollectiveRunner>runner
    return find_runner(comm)
