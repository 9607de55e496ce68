# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reductions by ops of the user: functions in Python, and compiled ones.

A function that raises does not end the call, as other ranks are in it: the rank continues
with undefined elements, and all ranks raise the error after the call.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy

from collalgo._kernels.engine.reduction.reduce cimport Reduction, float8_tables

cnp.import_array()

cdef enum:
    BLOCK_BYTES = 8192  # that a compiled op combines at once


cdef class CompiledReduction(Reduction):
    """An op of the user that is compiled, called without the GIL.

    Parameters
    ----------
    address : int
        The address of ``void f(void *left, const void *right, int64_t count)``, which
        replaces each element ``left`` by ``left op right``.
    itemsize : int
        Bytes of one element.
    owner : object
        The owner of the function, kept alive.
    """

    def __init__(self, uintptr_t address, int64_t itemsize, owner):
        self.op.combine = (
            <void (*)(void *, const void *, int64_t) noexcept nogil>address
        )
        self.op.itemsize = self.itemsize = itemsize
        self.function, self.owner = combine_compiled, owner
        self.tables = <const float8_tables *>&self.op


cdef class PythonReduction(Reduction):
    """An op of the user in Python.

    Parameters
    ----------
    combine : callable
        Returns the reduction of a list of arrays, in their order, as a new array.
    dtype : dtype
        The dtype of the arrays.
    """

    def __init__(self, combine, dtype):
        self.combine, self.dtype, self.itemsize = combine, dtype, dtype.itemsize
        self.function = combine_in_python
        self.tables = <const float8_tables *><void *>self

    cdef PythonReduction for_program(self):
        """A copy that keeps the failures of one program."""
        return PythonReduction(self.combine, self.dtype)

    cdef object take_failure(self):
        """The error that the op has raised since the last call, or None."""
        failure, self.failure = self.failure, None
        return failure

    cdef int combine_all(
        self, void *dst, const void *const *inputs, int64_t n, int64_t count
    ) except -1:
        """Set the elements at ``dst`` to the reduction of the inputs."""
        cdef int64_t i
        arrays = [on_memory(<void *>inputs[i], count, self.dtype) for i in range(n)]
        found = self.combine(arrays)
        memcpy(dst, cnp.PyArray_DATA(<cnp.ndarray>found), count * self.itemsize)
        return 0


cdef cnp.ndarray on_memory(void *first, int64_t count, dtype):
    """A NumPy array on ``count`` elements, that must not outlive the call."""
    cdef cnp.npy_intp nbytes = count * <int64_t>dtype.itemsize
    return cnp.PyArray_SimpleNewFromData(1, &nbytes, cnp.NPY_UINT8, first).view(dtype)


cdef void combine_in_python(
    void *dst, const void *const *inputs, int64_t n, int64_t count,
    int64_t divisor, const float8_tables *context
) noexcept nogil:
    """The kernel of an op in Python."""
    with gil:
        reduction = <PythonReduction><void *>context
        if reduction.failure is None:
            try:
                reduction.combine_all(dst, inputs, n, count)
            except BaseException as error:
                reduction.failure = error


cdef void combine_compiled(
    void *dst, const void *const *inputs, int64_t n, int64_t count,
    int64_t divisor, const float8_tables *context
) noexcept nogil:
    """The kernel of a compiled op, block by block, as ``dst`` may be one of the inputs."""
    cdef const compiled_op *op = <const compiled_op *>context
    cdef char block[BLOCK_BYTES]
    cdef int64_t each = BLOCK_BYTES // op.itemsize, first = 0, elements, at, i
    while first < count:
        elements, at = min(each, count - first), first * op.itemsize
        memcpy(block, <const char *>inputs[0] + at, elements * op.itemsize)
        for i in range(1, n):
            op.combine(block, <const char *>inputs[i] + at, elements)
        memcpy(<char *>dst + at, block, elements * op.itemsize)
        first += elements
