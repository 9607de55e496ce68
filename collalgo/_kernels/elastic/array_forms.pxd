"""The forms of arrays of NumPy: their shapes and dtypes."""

cimport numpy as cnp


cdef inline bint are_alike(one, other):
    """Whether two objects are arrays of NumPy of the same shape and dtype."""
    if type(one) is not cnp.ndarray or type(other) is not cnp.ndarray:
        return False
    return is_like(one, other)


cdef inline bint is_like(cnp.ndarray one, cnp.ndarray other):
    """Whether an array has the shape and dtype of another."""
    cdef int dimensions = cnp.PyArray_NDIM(one), i
    if dimensions != cnp.PyArray_NDIM(other):
        return False
    for i in range(dimensions):
        if cnp.PyArray_DIM(one, i) != cnp.PyArray_DIM(other, i):
            return False
    return cnp.PyArray_EquivArrTypes(one, other)
