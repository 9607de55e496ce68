# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The functions of torch that make the usual calls, as seen by the process group."""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF

from inspect import unwrap

import torch.distributed as dist

cdef extern from "Python.h":
    PyObject *Py_True
    PyObject *Py_False

cdef extern from "frames.h":
    PyObject *running_code(int *instruction)
    PyObject *running_argument(int place)


@cython.final
cdef class Caller:
    """A function of torch that makes calls, and passes on its arguments in the options.

    It waits for the work that it gets, if any, or returns it, and sets no timeout. Its
    options are read once for each op, as that takes longer than all the rest of a call;
    from Python 3.12 on, which hides the arguments, in each call.
    """

    def __init__(self, code):
        names = code.co_varnames[: code.co_argcount]
        self.code, self.is_async_place = code, names.index("async_op")
        self.op_place = names.index("op") if "op" in names else -1

    cdef PyObject *passed_op(self) noexcept:
        """The op that was passed, or None if it has none; NULL if the op is unknown."""
        return <PyObject *>None if self.op_place < 0 else running_argument(self.op_place)

    cdef str known_op(self, bint *is_async):
        """The name of the op of the present call, or None if its options must be read."""
        cdef PyObject *passed = running_argument(self.is_async_place)
        is_async[0] = passed == Py_True
        if passed == Py_True or passed == Py_False:
            return self.op_name if <PyObject *>self.op == self.passed_op() else None
        return None

    cdef learn(self, str name):
        """Note the name of the op of the present call."""
        cdef PyObject *op = self.passed_op()
        if op != NULL:
            self.op, self.op_name = <object>op, name


def functions_of_torch():
    """The code of the functions that make the calls, by their names in all versions of torch."""
    names = (
        "all_reduce", "broadcast", "all_gather_into_tensor", "all_gather_single",
        "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all_single",
    )
    found = [unwrap(getattr(dist, name)).__code__ for name in names if hasattr(dist, name)]
    return [
        code for code in found
        if "async_op" in code.co_varnames[: code.co_argcount] and "timeout" not in code.co_names
    ]


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
