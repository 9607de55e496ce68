# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The usual calls of a process group of torch, without Python code on the way.

A usual call has contiguous tensors in host memory and an op of this library. It is not
coalesced, and neither a profiler runs nor, if it is asynchronous, a backward pass. All
others take the general way.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import wraps

import torch
import torch.distributed as dist
from torch.autograd import profiler
from torch.distributed.distributed_c10d import AllgatherOptions

from collalgo._kernels.comm.reducing cimport Reducing, runner_of
from collalgo._kernels.comm.tensors cimport tensor_array
from collalgo._kernels.integrations.torch_functions cimport Caller, caller_of_call

from collalgo.integrations.torch.backward import NO_PASS
from collalgo.integrations.torch.ops import BY_HASH
from collalgo.integrations.torch.work import seconds_of

cnp.import_array()

cdef object NOT_MADE = object()
cdef object number_of_pass = torch._C._current_graph_task_id


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

    cdef object make(self, group, DirectCall call, tuple args, opts):
        """Make a call: its work, None if torch only waits for it, NOT_MADE if not usual."""
        cdef bint is_async = False
        if self.is_coalescing or profiler._is_profiler_enabled:
            return NOT_MADE
        cdef Caller caller = caller_of_call()
        op = call.op_of(opts, caller, &is_async)
        arrays = None if op is None else call.arrays_of(args, self.runner.size)
        if arrays is None or is_async and number_of_pass() != NO_PASS:
            return NOT_MADE
        timeout = seconds_of(opts.timeout) if caller is None else None
        if is_async:
            work = self.submit(call, arrays, opts, op, timeout)
            return group.work_of([work], [only(args[0])])
        call.make(self.runner, arrays, opts, op, timeout)
        return None if caller is not None else group.work_of([], [only(args[0])])

    cdef object submit(self, DirectCall call, tuple arrays, opts, str op, timeout):
        """Make a call in the background."""
        cdef Preparation made = Preparation.__new__(Preparation)
        made.call, made.runner, made.arrays = call, self.runner, arrays
        made.opts, made.op, made.timeout = opts, op, timeout
        return self.runner.submit(call.name, made)


cdef class DirectCall:
    """A call of process groups.

    Parameters
    ----------
    name : str
        The name of the collective.
    place : int
        The number of its arguments before the options.
    options : type
        The class of the options.
    reduces : bool
        Whether they have an op.
    """

    cdef str name
    cdef Py_ssize_t place
    cdef object options
    cdef bint reduces

    def __init__(self, str name, Py_ssize_t place, options, bint reduces=False):
        self.name, self.place, self.options = name, place, options
        self.reduces = reduces

    cdef object options_of(self, tuple args, dict named):
        """The options, or None unless the arguments are those that torch passes."""
        if named or len(args) != self.place + 1:
            return None
        opts = args[self.place]
        return opts if type(opts) is self.options else None

    cdef str op_of(self, opts, Caller caller, bint *is_async):
        """The op of a call, "" if it has none; None for an op that is not usual."""
        cdef str name = None if caller is None else caller.known_op(is_async)
        if name is not None:
            return name
        is_async[0] = opts.asyncOp
        name = BY_HASH.get(hash(opts.reduceOp)) if self.reduces else ""
        if caller is not None:
            caller.learn(name)
        return name

    cdef tuple arrays_of(self, tuple args, int64_t size):
        """The arrays on the tensors of a call, the source first; None if it is not usual."""
        raise NotImplementedError

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        """Make a call."""
        raise NotImplementedError


cdef class Allreduce(DirectCall):
    cdef tuple arrays_of(self, tuple args, int64_t size):
        array = usual_array(only(args[0]), -1)
        return None if array is None else (array,)

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        runner.allreduce(arrays[0], op, None, None, False, timeout)
        return 0


cdef class Broadcast(DirectCall):
    cdef tuple arrays_of(self, tuple args, int64_t size):
        array = usual_array(only(args[0]), -1)
        return None if array is None else (array,)

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        runner.broadcast(arrays[0], opts.rootRank, None, timeout)
        return 0


cdef class Allgather(DirectCall):
    cdef tuple arrays_of(self, tuple args, int64_t size):
        source, target = usual_array(args[1], 0), usual_array(args[0], size)
        return (source, target) if is_whole(target, source, size) else None

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        runner.allgather(arrays[0], arrays[1], None, timeout)
        return 0


cdef class ReduceScatter(DirectCall):
    cdef tuple arrays_of(self, tuple args, int64_t size):
        source, target = usual_array(args[1], 0), usual_array(args[0], 0)
        return (source, target) if is_whole(source, target, size) else None

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        runner.reduce_scatter(arrays[0], op, None, arrays[1], None, False, timeout)
        return 0


cdef class Alltoall(DirectCall):
    cdef tuple arrays_of(self, tuple args, int64_t size):
        if args[2] or args[3]:
            return None  # the sizes of parts
        source, target = usual_array(args[1], -1), usual_array(args[0], -1)
        fit = is_whole(target, source, 1) and are_divisible(source, target, size)
        return (source, target) if fit else None

    cdef int make(self, Reducing runner, tuple arrays, opts, str op, timeout) except -1:
        runner.alltoall(arrays[0], arrays[1], None, timeout)
        return 0


@cython.final
cdef class Preparation:
    """Prepares a call for the background."""

    cdef DirectCall call
    cdef Reducing runner
    cdef tuple arrays
    cdef object opts, timeout
    cdef str op

    def __call__(self):
        self.call.make(self.runner, self.arrays, self.opts, self.op, self.timeout)


cdef object only(passed):
    """The tensor of a list of one, as torch passes it, or what was passed."""
    return passed[0] if type(passed) is list and len(passed) == 1 else passed


cdef cnp.ndarray usual_array(tensor, int64_t rows):
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
    "allreduce": Allreduce("allreduce", 1, dist.AllreduceOptions, True),
    "broadcast": Broadcast("broadcast", 1, dist.BroadcastOptions),
    "all_gather_single": Allgather("allgather", 2, AllgatherOptions),
    "reduce_scatter_single": ReduceScatter(
        "reduce_scatter", 2, dist.ReduceScatterOptions, True
    ),
    "all_to_all_single": Alltoall("alltoall", 4, dist.AllToAllOptions),
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
        opts = call.options_of(args, named)
        found = NOT_MADE if opts is None else calls.make(self, call, args, opts)
        return general(self, *args, **named) if found is NOT_MADE else found

    return made
