# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""A wire over MPI: the functions of the library that the process has loaded.

Handles are words as wide as a register; a library with 32-bit handles uses the lower
half. Each request has a word of its own, so its width does not matter either.
"""

from libc.limits cimport INT_MAX
from libc.stdint cimport int64_t, intptr_t, uintptr_t

from collalgo._kernels.engine.transport.wire cimport ARRIVED, LOST, UNDER_WAY, Wire

ctypedef int (*isend_type)(
    const void *, int, intptr_t, int, int, intptr_t, void *
) noexcept nogil
ctypedef int (*irecv_type)(
    void *, int, intptr_t, int, int, intptr_t, void *
) noexcept nogil
ctypedef int (*test_type)(void *, int *, void *) noexcept nogil
ctypedef int (*get_count_type)(void *, intptr_t, int *) noexcept nogil
ctypedef int (*cancel_type)(void *) noexcept nogil

#: The functions that are looked up in the library.
FUNCTIONS = (
    "MPI_Isend", "MPI_Issend", "MPI_Irecv", "MPI_Test", "MPI_Get_count", "MPI_Cancel"
)


cdef class MpiWire(Wire):
    """Messages on a communicator of MPI.

    Parameters
    ----------
    functions : dict
        The addresses of :data:`FUNCTIONS`.
    comm, byte : int
        The handles of a communicator that returns errors, and of MPI_BYTE.
    owner : object
        The object that owns the communicator.
    """
    cdef isend_type isend, issend
    cdef irecv_type irecv
    cdef test_type mpi_test
    cdef get_count_type get_count
    cdef cancel_type mpi_cancel
    cdef intptr_t comm, byte
    cdef object owner

    def __init__(self, functions, uintptr_t comm, uintptr_t byte, owner):
        self.isend = <isend_type><uintptr_t>functions["MPI_Isend"]
        self.issend = <isend_type><uintptr_t>functions["MPI_Issend"]
        self.irecv = <irecv_type><uintptr_t>functions["MPI_Irecv"]
        self.mpi_test = <test_type><uintptr_t>functions["MPI_Test"]
        self.get_count = <get_count_type><uintptr_t>functions["MPI_Get_count"]
        self.mpi_cancel = <cancel_type><uintptr_t>functions["MPI_Cancel"]
        self.comm, self.byte, self.owner = <intptr_t>comm, <intptr_t>byte, owner

    cdef int send(
        self, int64_t peer, int64_t tag, const char *data, int64_t nbytes, bint matched,
        int64_t *request
    ) noexcept nogil:
        cdef isend_type begin = self.issend if matched else self.isend
        request[0] = 0
        return LOST if nbytes > INT_MAX or begin(
            data, <int>nbytes, self.byte, <int>peer, <int>tag, self.comm, request
        ) else UNDER_WAY

    cdef int receive(
        self, int64_t peer, int64_t tag, char *data, int64_t nbytes, int64_t *request
    ) noexcept nogil:
        request[0] = 0
        return LOST if nbytes > INT_MAX or self.irecv(
            data, <int>nbytes, self.byte, <int>peer, <int>tag, self.comm, request
        ) else UNDER_WAY

    cdef int test(self, int64_t peer, int64_t *request, int64_t *nbytes) noexcept nogil:
        cdef int64_t status[8]  # larger than that of any MPI
        cdef int flag = 0, count = 0
        if self.mpi_test(request, &flag, status):
            return LOST
        if not flag:
            return UNDER_WAY
        if self.get_count(status, self.byte, &count):
            return LOST
        nbytes[0] = count
        return ARRIVED

    cdef void cancel(self, int64_t *request) noexcept nogil:
        self.mpi_cancel(request)
