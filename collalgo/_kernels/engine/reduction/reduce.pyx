# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Element-wise reductions of n inputs, for every dtype and op.

The kernels are C (``reduce_kernels.h``), compiled for several instruction sets; the best one
that the machine has is chosen at import.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy

import numpy as np

cnp.import_array()

cdef extern from "reduce_kernels.h":
    enum: OPS
    enum: DTYPE_FAMILIES
    ctypedef reduce_fn table_row[OPS]
    ctypedef const table_row *reduce_table
    reduce_table reduce_variant(const char *name) nogil

FAMILIES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8",
    "longdouble", "clongdouble", "datetime64", "timedelta64",
)
OPERATIONS = (
    "sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor",
)
#: The op of a sum of floats that is rounded once.
EXACT_SUM = "exact_sum"
VARIANTS = tuple(
    name for name in ("avx512", "avx2", "baseline")
    if reduce_variant(name.encode()) != NULL
)


cdef class Float8Tables:
    """How one kind of float8 is decoded to and encoded from float32."""
    cdef float8_tables tables

    def __init__(self, const float[::1] decode, const unsigned char[::1] encode):
        if decode.shape[0] != 256 or encode.shape[0] != 65536:
            raise ValueError(
                f"float8 tables have 256 and 65536 entries, not {decode.shape[0]} "
                f"and {encode.shape[0]}"
            )
        memcpy(self.tables.decode, &decode[0], sizeof(self.tables.decode))
        memcpy(self.tables.encode, &encode[0], sizeof(self.tables.encode))


cdef class Reduction:
    """One dtype and op, ready to be called without the GIL.

    Parameters
    ----------
    family : str
        One of ``FAMILIES``.
    operation : str
        One of ``OPERATIONS``, or ``EXACT_SUM``.
    itemsize : int
        Bytes of one element.
    tables : Float8Tables, optional
        For the family ``float8``.
    variant : str, optional
        One of ``VARIANTS``; the best by default.

    Raises
    ------
    TypeError
        If the family does not have the operation.
    """

    def __init__(
        self, str family, str operation, int64_t itemsize,
        Float8Tables tables=None, str variant=None,
    ):
        cdef reduce_table table = reduce_variant((variant or VARIANTS[0]).encode())
        if table == NULL:
            raise ValueError(f"no variant {variant!r} here; choose one of {VARIANTS}")
        self.function = table[FAMILIES.index(family)][(*OPERATIONS, EXACT_SUM).index(operation)]
        if self.function == NULL:
            raise TypeError(f"op {operation!r} is not defined for {family}")
        if (family == "float8") != (tables is not None):
            raise TypeError("float8, and nothing else, needs tables")
        self.itemsize = itemsize
        self.owner = tables
        self.tables = &tables.tables if tables is not None else NULL

    def __call__(self, cnp.ndarray out, inputs, int64_t divisor=0):
        """Set ``out`` to the reduction of ``inputs``, in their order.

        All arrays are contiguous and of the same number of bytes; ``out`` may be one
        of the inputs. A ``divisor`` other than 0 divides the result.
        """
        cdef int64_t n = len(inputs), i
        cdef int64_t count = cnp.PyArray_NBYTES(out) // self.itemsize
        cdef cnp.ndarray array
        cdef cnp.ndarray places = np.empty(n, np.uintp)
        cdef const void **pointers = <const void **>cnp.PyArray_DATA(places)
        if not n:
            raise ValueError("there is nothing to reduce; pass one input or more")
        for i in range(n):
            array = inputs[i]
            if cnp.PyArray_NBYTES(array) != cnp.PyArray_NBYTES(out):
                raise ValueError(f"input {i} and the output differ in size")
            pointers[i] = cnp.PyArray_DATA(array)
        with nogil:
            self.function(
                cnp.PyArray_DATA(out), pointers, n, count, divisor, self.tables
            )
        return out
