# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Fast checks of the arrays of a call: shapes, dtypes and shared memory.

A check that fails is repeated by :mod:`collalgo.engine.arrays`, which decides and raises errors.
"""

cimport numpy as cnp
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t

from collalgo._kernels.comm.tensors cimport tensor_array

from collalgo.base.foreign import is_immutable
from collalgo.engine.arrays import as_array, length
from collalgo.engine.results import result_like

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(
        int axes, cnp.npy_intp *shape, cnp.PyArray_Descr *dtype, int is_fortran
    )

cdef enum:
    AXES = 32  # of an array that is made without a call of Python


cdef cnp.ndarray foreign_array(buf, str caller):
    """A NumPy array on the memory of ``buf``, which is of another type."""
    found = tensor_array(buf)
    if found is None or getattr(buf, "requires_grad", False):
        found = as_array(buf, caller)
    return found


cdef bint are_disjoint(cnp.ndarray a, cnp.ndarray b):
    """Whether two arrays certainly share no memory: contiguous, one after the other."""
    cdef char *first = cnp.PyArray_BYTES(a)
    cdef char *second = cnp.PyArray_BYTES(b)
    return (
        cnp.PyArray_ISONESEGMENT(a) and cnp.PyArray_ISONESEGMENT(b)
        and (first + cnp.PyArray_NBYTES(a) <= second
             or second + cnp.PyArray_NBYTES(b) <= first)
    )


cdef bint has_shape(cnp.ndarray target, cnp.ndarray like, int64_t rows, int first_axis):
    """Whether an array has the dtype, and shape ``(rows, *like.shape[first_axis:])``."""
    cdef int axis, further = 1 - first_axis
    if (
        cnp.PyArray_DESCR(target) is not cnp.PyArray_DESCR(like)
        or cnp.PyArray_NDIM(target) != cnp.PyArray_NDIM(like) + further
        or cnp.PyArray_DIM(target, 0) != rows
    ):
        return False
    for axis in range(first_axis, cnp.PyArray_NDIM(like)):
        if cnp.PyArray_DIM(target, axis + further) != cnp.PyArray_DIM(like, axis):
            return False
    return True


cdef bint fits(out, cnp.ndarray like, int64_t rows, int first_axis):
    """Whether ``out`` certainly has the shape, and shares no memory with ``like``."""
    return (
        type(out) is cnp.ndarray
        and has_shape(out, like, rows, first_axis)
        and are_disjoint(out, like)
    )


cdef cnp.ndarray new_array(cnp.ndarray like, int64_t rows, int first_axis):
    """An array with the dtype of another, and shape ``(rows, *like.shape[first_axis:])``."""
    cdef cnp.npy_intp shape[AXES]
    cdef int axis, further = 1 - first_axis
    shape[0] = rows
    for axis in range(first_axis, cnp.PyArray_NDIM(like)):
        shape[axis + further] = cnp.PyArray_DIM(like, axis)
    Py_INCREF(<object>cnp.PyArray_DESCR(like))  # which the new array takes over
    return PyArray_Empty(
        cnp.PyArray_NDIM(like) + further, shape, cnp.PyArray_DESCR(like), False
    )


cdef cnp.ndarray fast_result(
    buf, out, cnp.ndarray source, int64_t rows, int first_axis
):
    """The array for a result with ``rows`` rows, None unless that is certain.

    It is ``out`` if that fits, or a new one if ``buf`` is an array of NumPy.
    """
    if out is not None:
        return out if fits(out, source, rows, first_axis) else None
    if type(buf) is not cnp.ndarray or cnp.PyArray_NDIM(source) >= AXES:
        return None
    try:
        return new_array(source, rows, first_axis)
    except ValueError:  # it is too large
        return None


cdef bint is_same_array(out, cnp.ndarray source):
    """Whether ``out`` certainly is the same array, or another one on the same memory."""
    return out is source or (
        type(out) is cnp.ndarray
        and cnp.PyArray_BYTES(out) == cnp.PyArray_BYTES(source)
        and has_shape(out, source, cnp.PyArray_DIM(source, 0), 1)
        and cnp.PyArray_IS_C_CONTIGUOUS(out)
        and cnp.PyArray_IS_C_CONTIGUOUS(source)
    )


cdef cnp.ndarray checked_output(out, cnp.ndarray source, str caller):
    """The array on ``out`` for a result like ``source``, in place or disjoint."""
    if cnp.PyArray_NDIM(source) and (
        fits(out, source, cnp.PyArray_DIM(source, 0), 1) or is_same_array(out, source)
    ):
        return out
    return result_like(out, source, caller)


cdef bint needs_result(buf, out, cnp.ndarray source):
    """Whether a call in place needs a new array for its result, as of JAX arrays."""
    return (
        buf is not source
        and out is None
        and not cnp.PyArray_ISWRITEABLE(source)
        and is_immutable(buf)
    )


cdef int64_t length_of(cnp.ndarray array, str caller) except -1:
    """The length of axis 0."""
    return cnp.PyArray_DIM(array, 0) if cnp.PyArray_NDIM(array) else length(array, caller)
