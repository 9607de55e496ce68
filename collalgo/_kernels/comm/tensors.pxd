cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef extern from "dlpack.h":
    const int DLPACK_MAJOR, DLPACK_HOST, DLPACK_BOOL, DLPACK_BFLOAT, DLPACK_FLOAT8

    ctypedef struct dlpack_tensor:
        void *data
        int32_t device, axes
        uint8_t code, bits
        uint16_t lanes
        int64_t *shape
        int64_t *strides
        uint64_t offset
    ctypedef struct dlpack_functions:
        int major
        int (*describe)(void *tensor, dlpack_tensor *found)


cpdef cnp.ndarray tensor_array(tensor, int64_t rows=*)
