cimport numpy as cnp
from libc.stdint cimport int64_t


cdef cnp.ndarray array_of(buf, str caller)
cdef cnp.ndarray output_array(out, cnp.ndarray source, str caller)
cdef bint fits(out, cnp.ndarray like, int64_t rows, int first_axis)
cdef cnp.ndarray fast_result(
    buf, out, cnp.ndarray source, int64_t rows, int first_axis
)
cdef int64_t length_of(cnp.ndarray array, str caller) except -1


cdef inline bint is_on_device(cnp.ndarray array):
    """Whether an array represents an array on a device."""
    return array is not None and type(array) is not cnp.ndarray


cdef inline int64_t size_of(cnp.ndarray array):
    """The number of elements; NumPy computes it at each access."""
    if cnp.PyArray_NDIM(array) == 1:
        return cnp.PyArray_DIM(array, 0)
    return cnp.PyArray_SIZE(array)
