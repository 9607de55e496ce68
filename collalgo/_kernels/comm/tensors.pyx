# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""NumPy arrays on the memory of tensors, by the C functions that DLPack defines.

They take a tenth of the time of ``__dlpack__``, and know dtypes that NumPy refuses.
What they cannot describe is left to :mod:`collalgo.engine.arrays`.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_Clear
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t

import numpy as np

from collalgo.engine.dtypes import FLOAT8

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    cnp.ndarray PyArray_NewFromDescr(
        type kind, cnp.PyArray_Descr *dtype, int axes, cnp.npy_intp *shape,
        cnp.npy_intp *strides, void *data, int flags, PyObject *like
    )

cdef enum:
    CODES = 32  # of elements, and the most bytes of one: a table has them
    SIZES = 8
    AXES = 32  # of a tensor, at most

cdef str ATTRIBUTE = "__dlpack_c_exchange_api__"  # of classes of tensors
cdef const char *FUNCTIONS = "dlpack_exchange_api"  # the name of the capsule
cdef tuple KINDS = ("int", "uint", "float")  # the names of the first codes

# The dtypes by code and size, the classes, and the last one of them.
cdef list dtypes = [None] * (CODES * SIZES)
cdef dict classes = {}
cdef TensorClass latest = TensorClass(type(None))


@cython.final
cdef class TensorClass:
    """A class of tensors, and its C functions, or NULL."""

    cdef object kind, is_negative
    cdef const dlpack_functions *functions

    def __init__(self, kind):
        self.kind = kind
        capsule = kind.__dict__.get(ATTRIBUTE)  # that of a base does not serve this class
        self.is_negative = getattr(kind, "is_neg", None)
        # Other tensors than those of torch may be read-only, which these functions hide.
        if self.is_negative is None or not PyCapsule_IsValid(capsule, FUNCTIONS):
            return
        self.functions = <const dlpack_functions *>PyCapsule_GetPointer(
            capsule, FUNCTIONS
        )
        if self.functions.major != DLPACK_MAJOR:
            self.functions = NULL

    cdef object describe(self, tensor, dlpack_tensor *found, bint *is_row):
        """Describe a tensor in host memory: its dtype, or None if it has no array."""
        if self.functions == NULL or self.functions.describe == NULL:
            return None
        if self.functions.describe(<void *>tensor, found):
            PyErr_Clear()
            return None
        if found.device != DLPACK_HOST or found.lanes != 1 or found.axes > AXES:
            return None
        is_row[0] = is_contiguous(found)
        if found.data == NULL or self.is_negated(tensor, found, is_row[0]):
            return None
        return dtype_of(found.code, found.bits)

    cdef bint is_negated(
        self, tensor, const dlpack_tensor *found, bint is_row
    ) except -1:
        """Whether the memory of a tensor has the negatives of its elements.

        Torch sets this on the imaginary parts of conjugated tensors alone, which have a
        stride of 2 or a base: it is slow to tell, so that it is not asked of others.
        """
        if is_row and count_of(found) > 1 and tensor._base is None:
            return False
        return self.is_negative(tensor)


cdef TensorClass class_of(tensor):
    """The class of an object."""
    global latest
    cdef TensorClass found
    if latest.kind is not type(tensor):
        found = classes.get(type(tensor))
        if found is None:
            found = classes[type(tensor)] = TensorClass(type(tensor))
        latest = found
    return latest


cdef object dtype_of(int code, int bits):
    """The dtype of NumPy for elements of DLPack, or None."""
    cdef int place = code * SIZES + (bits >> 3) - 1
    if code >= CODES or bits & 7 or not 0 < bits <= 8 * SIZES:
        return None
    if dtypes[place] is None:
        dtypes[place] = find_dtype(code, bits) or False
    return dtypes[place] or None


def find_dtype(int code, int bits):
    """The dtype of NumPy for elements of DLPack, or None."""
    if code < len(KINDS):
        plain = np.sctypeDict.get(f"{KINDS[code]}{bits}")
        return None if plain is None else np.dtype(plain)
    if code == DLPACK_BOOL and bits == 8:
        return np.dtype(np.bool_)
    name = "bfloat16" if code == DLPACK_BFLOAT and bits == 16 else None
    if DLPACK_FLOAT8 <= code < DLPACK_FLOAT8 + len(FLOAT8) and bits == 8:
        name = FLOAT8[code - DLPACK_FLOAT8]
    if name is None:
        return None
    try:
        import ml_dtypes
    except ImportError:
        return None
    narrow = getattr(ml_dtypes, name, None)  # which old versions lack
    return None if narrow is None else np.dtype(narrow)


cdef int64_t count_of(const dlpack_tensor *found) noexcept:
    """The number of elements."""
    cdef int64_t count = 1
    cdef int axis
    for axis in range(found.axes):
        count *= found.shape[axis]
    return count


cdef bint is_contiguous(const dlpack_tensor *found) noexcept:
    """Whether the elements follow one another, the last axis first."""
    cdef int64_t stride = 1
    cdef int axis
    for axis in range(found.axes - 1, -1, -1):
        if found.shape[axis] != 1:
            if found.strides != NULL and found.strides[axis] != stride:
                return False
            stride *= found.shape[axis]
    return True


cpdef cnp.ndarray tensor_array(tensor, int64_t rows=-1):
    """An array on the memory of a tensor, which it keeps alive, or None.

    Its shape is that of the tensor if ``rows`` is negative. Otherwise the tensor must be
    contiguous, and the array is flat, or a matrix of ``rows`` rows.
    """
    cdef TensorClass kind = class_of(tensor)
    cdef dlpack_tensor found
    cdef int64_t size
    cdef bint is_row = False
    dtype = kind.describe(tensor, &found, &is_row)
    if dtype is None or rows >= 0 and not is_row:
        return None
    size = found.bits >> 3
    if rows < 0:
        return own_array(tensor, dtype, &found, size)
    return row_array(tensor, dtype, &found, size, rows)


cdef cnp.ndarray own_array(
    tensor, dtype, const dlpack_tensor *found, int64_t size
):
    """An array of the shape of a tensor."""
    cdef cnp.npy_intp[AXES] strides
    cdef int axis
    if found.strides == NULL:
        return new_array(tensor, dtype, found, found.axes, found.shape, NULL)
    for axis in range(found.axes):
        strides[axis] = found.strides[axis] * size
    return new_array(tensor, dtype, found, found.axes, found.shape, strides)


cdef cnp.ndarray row_array(
    tensor, dtype, const dlpack_tensor *found, int64_t size, int64_t rows
):
    """A flat array on a contiguous tensor, or a matrix if its elements fill the rows."""
    cdef int64_t count = count_of(found)
    if rows == 0:
        return new_array(tensor, dtype, found, 1, &count, &size)
    cdef cnp.npy_intp[2] shape = [rows, count // rows]
    cdef cnp.npy_intp[2] strides = [count // rows * size, size]
    if shape[0] * shape[1] != count:
        return None
    return new_array(tensor, dtype, found, 2, shape, strides)


cdef cnp.ndarray new_array(
    tensor, dtype, const dlpack_tensor *found, int axes, const int64_t *shape,
    const int64_t *strides
):
    """An array on the memory of a tensor."""
    cdef cnp.ndarray array
    Py_INCREF(dtype)  # which the array takes over
    array = PyArray_NewFromDescr(
        cnp.ndarray, <cnp.PyArray_Descr *>dtype, axes, <cnp.npy_intp *>shape,
        <cnp.npy_intp *>strides, <char *>found.data + found.offset,
        cnp.NPY_ARRAY_WRITEABLE, NULL
    )
    cnp.set_array_base(array, tensor)
    return array
