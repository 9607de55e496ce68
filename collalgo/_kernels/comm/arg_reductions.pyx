# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reductions of plain arrays that find the rank, or the index, of the extreme value.

The values travel with their ranks or indices, as elements of two fields.
"""

cimport numpy as cnp

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport array_of, is_on_device
from collalgo._kernels.comm.reducing cimport Reducing
from collalgo._kernels.comm.tree_call cimport (
    check_written,
    must_be_later,
    run_between,
)

from collalgo._kernels.comm.joined import shared_pair
from collalgo.comm.tree import results_in_place
from collalgo.engine.arrays import check_output
from collalgo.engine.dtypes import pair_dtype
from collalgo.engine.pair_ops import ARG_OPS, check_values
from collalgo.engine.reduction import op_of, words_of
from collalgo.engine.results import new_of_integers, output, result_array

cnp.import_array()

cdef tuple OF_PAIRS = ("minloc", "maxloc")
cdef object INT64 = np.empty(0, np.int64)


cdef bint has_arg_op(buf, op) except -1:
    """Whether an op finds the rank of a value, or the index in a pair of arrays."""
    if not (isinstance(op, str) or is_pair(buf)):
        return False
    for word in words_of(op):
        if word in ARG_OPS or (word in OF_PAIRS and is_pair(buf)):
            return True
    return False


cdef bint is_pair(buf) except -1:
    """Whether these are arrays of values and of indices, of which none is a pair."""
    if not isinstance(buf, (tuple, list)) or len(buf) != 2:
        return False
    return not any([
        getattr(getattr(one, "dtype", None), "names", None) for one in buf
    ])


def reduce_arg(call, Reducing runner, buf, op, out, bint is_result_here=True):
    """Make a call that reduces plain arrays to ranks or indices.

    Parameters
    ----------
    call
        The function of the call, with its other arguments.
    is_result_here
        Whether this rank gets a result.
    """
    cdef ArgReduction made
    cdef str name = call.func.__name__
    if must_be_later(runner, [], name):
        args = call, runner, buf, op, out, is_result_here
        return runner.submit(name, partial(reduce_arg, *args)).wait()
    made = ArgReduction(call, runner, buf, op, out, is_result_here)
    run_between(runner, partial(made.make, buf), made.fill, made.finish)
    return made.result


cdef int check_one_array(buf, str caller, str op) except -1:
    """Refuse several arrays, as values with indices, in place of one."""
    if isinstance(buf, (list, tuple)) and any([hasattr(e, "dtype") for e in buf]):
        raise TypeError(
            f"{caller}: op {op!r} takes one array but got a {type(buf).__name__} of "
            f"{len(buf)}; for values with indices pass op '{op[3:]}loc'"
        )
    return 0


cdef int check_host(cnp.ndarray array, str caller, str op) except -1:
    """Check that an array is not on a device."""
    if is_on_device(array):
        raise TypeError(
            f"{caller}: op {op!r} takes no arrays on devices; copy them to the host"
        )
    return 0


cdef class ArgReduction:
    """The arrays of such a call: of values, of their indices, and of elements of both."""

    def __init__(self, call, Reducing runner, buf, op, out, bint is_result_here):
        self.call, self.runner, self.name = call, runner, call.func.__name__
        self.op = op_of(op, self.name)
        self.is_index = self.op.name in ARG_OPS
        self.is_scattered = self.name.startswith("reduce_scatter")
        self.is_exscan = self.name == "exscan"
        self.read(buf)
        dtypes = (<object>self.values).dtype, np.dtype(np.int32)
        if self.indices is not None:
            dtypes = dtypes[0], (<object>self.indices).dtype
        check_values(dtypes[0], self.op.name, self.name)
        self.pairs = np.zeros((<object>self.values).shape, pair_dtype(*dtypes))
        self.targets, self.out = [], out
        if is_result_here:
            self.write_to(buf, out)

    cdef int read(self, buf) except -1:
        """Find the arrays of the user, and check them."""
        if self.is_index:
            check_one_array(buf, self.name, self.op.name)
            self.values = self.array_on_host(buf, self.name)
            return 0
        self.values = self.array_on_host(buf[0], f"{self.name}: buf[0]")
        self.indices = self.array_on_host(buf[1], f"{self.name}: buf[1]")
        dtype, shape = (<object>self.indices).dtype, (<object>self.indices).shape
        if dtype.kind not in "iu":
            raise TypeError(
                f"{self.name}: the indices have dtype {dtype}; op {self.op.name!r} takes "
                "an array of values and one of integers, or elements of two fields"
            )
        if shape != (<object>self.values).shape:
            raise ValueError(
                f"{self.name}: the values have shape {(<object>self.values).shape} but "
                f"the indices have {shape}; they must be the same"
            )
        return 0

    cdef cnp.ndarray array_on_host(self, given, str caller):
        """An array of the user, which must not be on a device."""
        cdef cnp.ndarray array = array_of(given, caller)
        check_host(array, self.name, self.op.name)
        return array

    cdef int write_to(self, buf, out) except -1:
        """Find the arrays for the result, where they are known before the call."""
        if out is None:
            if not (self.is_index or self.is_scattered):
                arrays = [self.values, self.indices]
                self.result, self.targets = results_in_place(buf, arrays, self.name)
        elif self.is_index:
            self.targets = [self.target(out, INT64, "out", "the result")]
        else:
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(
                    f"{self.name}: out is of type {type(out).__name__}; pass two arrays, "
                    "for the values and the indices"
                )
            self.targets = [
                self.target(out[0], self.values, "out[0]", "buf[0]"),
                self.target(out[1], self.indices, "out[1]", "buf[1]"),
            ]
        return self.check_targets("buf" if out is None else "out")

    cdef int check_targets(self, str word) except -1:
        """Check that the results can be written, both with one shape."""
        for number, target in enumerate(self.targets):
            place = "" if self.is_index else f"[{number}]"
            check_written(target, word, place, self.name)
        if shared_pair(self.targets, []) is not None:
            raise ValueError(
                f"{self.name}: the values and the indices of the result share memory; "
                "pass arrays with memory of their own"
            )
        shapes = [target.shape for target in self.targets]
        if len(shapes) == 2 and shapes[0] != shapes[1]:  # the call checks only the first
            raise ValueError(
                f"{self.name}: out[0] has shape {shapes[0]} but out[1] has {shapes[1]}; "
                "they must be the same"
            )
        return 0

    cdef cnp.ndarray target(self, out, cnp.ndarray like, str word, str of_like):
        """The array on one of the user for a result, checked."""
        cdef cnp.ndarray array = output(out, f"{self.name}: {word}")
        check_host(array, self.name, self.op.name)
        shape = (<object>self.values).shape
        if self.is_scattered and cnp.PyArray_NDIM(array):  # the call checks its rows
            shape = (cnp.PyArray_DIM(array, 0), *shape[1:])
        check_output(array, like, shape, self.name, (word, of_like))
        return array

    def make(self, buf):
        """Make the call on elements of both, and know the arrays for the result."""
        cdef cnp.ndarray block = None
        if self.is_scattered and self.targets:
            block = np.empty(self.targets[0].shape, (<object>self.pairs).dtype)
        given = {} if block is None else {"out": block}
        found = self.call(self.pairs, self.runner, self.op, **given)
        self.found = found if block is None else block
        if self.found is None:
            return
        self.result = self.results(buf) if self.out is None else self.out

    cdef object results(self, buf):
        """What the call returns if the user has passed no arrays for that."""
        shape = (<object>self.found).shape
        if self.is_index:
            result, target = new_of_integers(buf, shape, self.name)
            self.targets = [target]
            return result
        if self.targets:
            return self.result
        found, self.targets = [], []
        for given, like in zip(buf, (self.values, self.indices)):
            result, target = result_array(given, None, like, shape, self.name)
            found.append(result)
            self.targets.append(target)
        return tuple(found)

    def fill(self):
        """Write the values and indices of this rank to the elements of both."""
        pairs = <object>self.pairs
        pairs["value"][...] = self.values
        pairs["index"][...] = self.runner.rank if self.is_index else self.indices

    def finish(self):
        """Write the result to the arrays for it."""
        if self.found is None:
            return
        if self.is_exscan and not self.runner.rank:  # which no rank precedes
            if self.is_index:
                self.targets[0][...] = -1
            return
        found = <object>self.found
        if self.is_index:
            self.targets[0][...] = found["index"]
            return
        self.targets[0][...] = found["value"]
        self.targets[1][...] = found["index"]
