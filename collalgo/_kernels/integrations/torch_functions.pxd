cimport cython
from cpython.object cimport PyObject


@cython.final
cdef class Caller:
    cdef object code
    cdef int op_place, is_async_place  # of its arguments; negative if it has no op
    cdef object op  # of the latest call whose options were read, and its name
    cdef str op_name

    cdef PyObject *passed_op(self) noexcept
    cdef str known_op(self, bint *is_async)
    cdef learn(self, str name)


cdef Caller caller_of_call()
