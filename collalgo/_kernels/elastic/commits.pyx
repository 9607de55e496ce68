# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The values of a state at a commit that has the same names and arrays as the last."""

cimport numpy as cnp
from libc.string cimport memcpy

from collalgo._kernels.elastic.array_forms cimport are_alike

cnp.import_array()

# Bytes from which on a copy releases the GIL.
cdef enum:
    LONG_BYTES = 1 << 16

cdef tuple PLAIN = (int, float, bool, str, type(None))


def flatten_again(dict values, skeleton, list arrays):
    """The skeleton and the arrays of values that differ from the last ones at most in
    their elements and their plain values; None if this finds other differences.

    Parameters
    ----------
    values : dict
        The values by their names.
    skeleton, arrays
        Those of the last commit.
    """
    cdef list items = skeleton[1], found_items = [], found = []
    cdef Py_ssize_t number = 0
    if len(items) != len(values):
        return None
    for name, value in values.items():
        item = item_again(name, value, items[number], arrays, found)
        if item is None:
            return None
        found_items.append(item)
        number += 1
    return (["dict", found_items], found) if len(found) == len(arrays) else None


cdef list item_again(name, value, list item, list arrays, list found):
    """The item of the skeleton of a value, whose array is appended; None if it differs."""
    part = item[1]
    if item[0] != name:
        return None
    if type(value) is cnp.ndarray:
        if len(found) == len(arrays) or type(part) is not list or part[0] != "array":
            return None
        if not are_alike(value, arrays[len(found)]):
            return None
        found.append(value)
        return item
    if type(part) is list or type(value) not in PLAIN:
        return None
    return item if part is value else [name, value]


def copy_again(list targets, list sources):
    """Copy arrays of NumPy into others that are like them, or return False."""
    cdef Py_ssize_t i, count = len(targets)
    if count != len(sources):
        return False
    for i in range(count):
        if not are_alike(targets[i], sources[i]):
            return False
    for i in range(count):
        copy(targets[i], sources[i])
    return True


cdef int copy(cnp.ndarray target, cnp.ndarray source) except -1:
    """Copy an array into another of the same shape and dtype."""
    cdef size_t nbytes = cnp.PyArray_NBYTES(source)
    cdef void *begin = cnp.PyArray_DATA(target)
    cdef const void *content = cnp.PyArray_DATA(source)
    if not (cnp.PyArray_IS_C_CONTIGUOUS(source) and cnp.PyArray_IS_C_CONTIGUOUS(target)):
        return cnp.PyArray_CopyInto(target, source)
    if nbytes < LONG_BYTES:
        memcpy(begin, content, nbytes)
        return 0
    with nogil:
        memcpy(begin, content, nbytes)
    return 0
