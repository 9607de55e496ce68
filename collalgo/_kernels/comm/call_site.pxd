from cpython.object cimport PyObject


cdef PyObject *calling_code(int *instruction) noexcept


cdef class CallSite:
    cdef object code
    cdef int instruction
