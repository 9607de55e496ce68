cimport numpy as cnp
from libc.stdint cimport int64_t


cpdef int join(list arrays, cnp.ndarray flat) except -1
cpdef int spread(cnp.ndarray flat, list arrays) except -1
cdef int spread_rows(cnp.ndarray rows, list arrays) except -1
