# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The usual calls of a process group of torch, without Python code on the way.

A usual call is made at once, on contiguous tensors in host memory and with an op of this
library, while no profiler runs. All others take the general way.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF
from libc.stdint cimport int64_t

from functools import wraps
from inspect import unwrap

import torch.distributed as dist
from torch.autograd import profiler
from torch.distributed.distributed_c10d import AllgatherOptions

from collalgo._kernels.comm.reducing cimport Reducing, runner_of
from collalgo._kernels.comm.tensors cimport tensor_array

from collalgo.integrations.torch.ops import BY_HASH
from collalgo.integrations.torch.work import seconds_of

cnp.import_array()

cdef extern from "Python.h":
    PyObject *Py_False

cdef extern from "frames.h":
    PyObject *running_code(int *instruction)
    PyObject *running_argument(int place)


cdef class DirectCalls:
    """What a process group has for its usual calls.

    Parameters
    ----------
    comm : Communicator
        Its communicator.

    Attributes
    ----------
    is_coalescing : bool
        Whether the group collects calls, which are not usual.
    """

    cdef Reducing runner
    cdef public bint is_coalescing

    def __init__(self, comm):
        self.runner = runner_of(comm)

    cdef bint may_be_usual(self):
        """Whether a call is neither coalesced nor profiled."""
        return not self.is_coalescing and not profiler._is_profiler_enabled


@cython.final
cdef class Caller:
    """A function of torch that makes calls, and passes on its arguments in the options.

    It waits for the work that it gets, if any, and sets no timeout. Its options are read
    once for each op: that takes longer than all the rest of a call.
    """

    cdef object code
    cdef int op_place, is_async_place  # of its arguments; negative if it has no op
    cdef object op  # of the latest call that is made at once, and its name
    cdef str op_name

    def __init__(self, code):
        names = code.co_varnames[: code.co_argcount]
        self.code, self.is_async_place = code, names.index("async_op")
        self.op_place = names.index("op") if "op" in names else -1

    cdef PyObject *passed_op(self) noexcept:
        """The op that was passed, or None; NULL in an asynchronous call, or if unknown."""
        if running_argument(self.is_async_place) != Py_False:
            return NULL
        return <PyObject *>None if self.op_place < 0 else running_argument(self.op_place)

    cdef str known_op(self):
        """The name of the op of a call that is made at once, or None if it is unknown."""
        return self.op_name if <PyObject *>self.op == self.passed_op() else None

    cdef learn(self, str name):
        """Note the name of the op of the present call."""
        cdef PyObject *op = self.passed_op()
        if op != NULL:
            self.op, self.op_name = <object>op, name


def functions_of_torch():
    """The code of the functions that make the calls, in any version of torch."""
    names = (
        "all_reduce", "broadcast", "all_gather_into_tensor", "all_gather_single",
        "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all_single",
    )
    found = [unwrap(getattr(dist, name)).__code__ for name in names if hasattr(dist, name)]
    return [code for code in found if "timeout" not in code.co_names]


cdef list CALLERS = [Caller(code) for code in functions_of_torch()]


cdef Caller caller_of_call():
    """The function of torch that makes the present call, or None if another does."""
    cdef int instruction
    cdef PyObject *code = running_code(&instruction)
    cdef Caller each, found = None
    for each in CALLERS:
        if code == <PyObject *>each.code:
            found = each
            break
    Py_XDECREF(code)
    return found


cdef class DirectCall:
    """A call of process groups.

    Parameters
    ----------
    options : type
        The class of its options, which are its last argument.
    reduces : bool
        Whether they have an op.
    """

    cdef object options
    cdef bint reduces

    def __init__(self, options, bint reduces):
        self.options, self.reduces = options, reduces

    cdef str op_of(self, opts, Caller caller):
        """The op of a call that is made at once, "" without one; None for other calls."""
        cdef str name = None if caller is None else caller.known_op()
        if name is not None or opts.asyncOp:
            return name
        name = BY_HASH.get(hash(opts.reduceOp)) if self.reduces else ""
        if caller is not None:
            caller.learn(name)
        return name

    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        """Make a call if its tensors are usual: whether it was made."""
        raise NotImplementedError


cdef class Allreduce(DirectCall):
    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        cdef cnp.ndarray array = array_of(only(args[0]), -1)
        if array is None:
            return False
        runner.allreduce(array, op, None, None, False, timeout)
        return True


cdef class Broadcast(DirectCall):
    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        cdef cnp.ndarray array = array_of(only(args[0]), -1)
        if array is None:
            return False
        runner.broadcast(array, args[1].rootRank, None, timeout)
        return True


cdef class Allgather(DirectCall):
    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        cdef cnp.ndarray source = array_of(args[1], 0)
        cdef cnp.ndarray target = array_of(args[0], runner.size)
        if not is_whole(target, source, runner.size):
            return False
        runner.allgather(source, target, None, timeout)
        return True


cdef class ReduceScatter(DirectCall):
    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        cdef cnp.ndarray source = array_of(args[1], 0), target = array_of(args[0], 0)
        if not is_whole(source, target, runner.size):
            return False
        runner.reduce_scatter(source, op, None, target, None, False, timeout)
        return True


cdef class Alltoall(DirectCall):
    cdef bint make(self, Reducing runner, tuple args, str op, timeout) except -1:
        if args[2] or args[3]:
            return False  # the sizes of parts
        cdef cnp.ndarray source = array_of(args[1], -1), target = array_of(args[0], -1)
        if not is_whole(target, source, 1) or not are_divisible(source, target, runner.size):
            return False
        runner.alltoall(source, target, None, timeout)
        return True


cdef object only(passed):
    """The tensor of a list of one, as torch passes it, or what was passed."""
    return passed[0] if type(passed) is list and len(passed) == 1 else passed


cdef cnp.ndarray array_of(tensor, int64_t rows):
    """The array of a contiguous tensor in host memory, or None; see :func:`tensor_array`."""
    cdef cnp.ndarray array = tensor_array(tensor, rows)
    return array if array is not None and cnp.PyArray_ISCARRAY(array) else None


cdef bint is_whole(cnp.ndarray whole, cnp.ndarray part, int64_t parts):
    """Whether an array has the elements of ``parts`` parts."""
    return (
        whole is not None and part is not None
        and cnp.PyArray_DESCR(whole) is cnp.PyArray_DESCR(part)
        and cnp.PyArray_SIZE(whole) == cnp.PyArray_SIZE(part) * parts
    )


cdef bint are_divisible(cnp.ndarray source, cnp.ndarray target, int64_t parts):
    """Whether two arrays have one shape, of ``parts`` equal blocks of rows."""
    cdef int axis, axes = cnp.PyArray_NDIM(source)
    if not axes or axes != cnp.PyArray_NDIM(target) or cnp.PyArray_DIM(source, 0) % parts:
        return False
    for axis in range(axes):
        if cnp.PyArray_DIM(source, axis) != cnp.PyArray_DIM(target, axis):
            return False
    return True


cdef dict CALLS = {
    "allreduce": Allreduce(dist.AllreduceOptions, True),
    "broadcast": Broadcast(dist.BroadcastOptions, False),
    "all_gather_single": Allgather(AllgatherOptions, False),
    "reduce_scatter_single": ReduceScatter(dist.ReduceScatterOptions, True),
    "all_to_all_single": Alltoall(dist.AllToAllOptions, False),
}


def direct(general):
    """The method of a process group that makes the usual calls directly.

    Parameters
    ----------
    general : callable
        The method for all calls, whose name tells the collective.
    """
    cdef DirectCall call = CALLS[general.__name__]

    @wraps(general)
    def made(self, *args, **named):
        cdef DirectCalls calls = self.direct_calls
        cdef Py_ssize_t last = len(args) - 1
        cdef Caller caller
        opts = None if named or last < 1 else args[last]
        if type(opts) is call.options and calls.may_be_usual():
            caller = caller_of_call()
            op = call.op_of(opts, caller)
            timeout = seconds_of(opts.timeout) if caller is None else None
            if op is not None and call.make(calls.runner, args, op, timeout):
                return None if caller is not None else self.finished_work([only(args[0])])
        return general(self, *args, **named)

    return made
