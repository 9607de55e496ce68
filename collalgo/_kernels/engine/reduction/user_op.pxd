from libc.stdint cimport int64_t

from collalgo._kernels.engine.reduction.reduce cimport Reduction


cdef struct compiled_op:
    void (*combine)(void *left, const void *right, int64_t count) noexcept nogil
    int64_t itemsize


cdef class CompiledReduction(Reduction):
    """An op of the user that is compiled, called without the GIL."""
    cdef compiled_op op


cdef class PythonReduction(Reduction):
    """An op of the user in Python, for one program."""
    cdef object dtype, combine, failure

    cdef PythonReduction for_program(self)
    cdef object take_failure(self)
    cdef int combine_all(
        self, void *dst, const void *const *inputs, int64_t n, int64_t count
    ) except -1
