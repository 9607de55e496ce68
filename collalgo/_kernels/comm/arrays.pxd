cimport numpy as cnp
from libc.stdint cimport int64_t


cdef cnp.ndarray foreign_array(buf, str caller)
cdef cnp.ndarray checked_output(out, cnp.ndarray source, str caller)
cdef bint needs_result(buf, out, cnp.ndarray source)
cdef bint fits(out, cnp.ndarray like, int64_t rows, int first_axis)
cdef cnp.ndarray fast_result(
    buf, out, cnp.ndarray source, int64_t rows, int first_axis
)
cdef int64_t length_of(cnp.ndarray array, str caller) except -1


cdef inline cnp.ndarray array_of(buf, str caller):
    """A NumPy array on the memory of ``buf``."""
    return <cnp.ndarray>buf if type(buf) is cnp.ndarray else foreign_array(buf, caller)


cdef inline cnp.ndarray output_array(out, cnp.ndarray source, str caller):
    """The array on ``out`` for a result like ``source``, in place or disjoint."""
    return source if out is None else checked_output(out, source, caller)


cdef inline bint is_on_device(cnp.ndarray array) noexcept:
    """Whether an array represents an array on a device."""
    return array is not None and type(array) is not cnp.ndarray


cdef inline int64_t size_of(cnp.ndarray array) noexcept:
    """The number of elements, of None 0; NumPy computes it at each access."""
    if array is None:
        return 0
    if cnp.PyArray_NDIM(array) == 1:
        return cnp.PyArray_DIM(array, 0)
    return cnp.PyArray_SIZE(array)
