from libc.stdint cimport int64_t
from posix.time cimport clockid_t

from collalgo._kernels.comm.call_site cimport CallSite
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.rows cimport array_bounds

cdef enum:
    PENDING = -50  # the status of a call that has not ended


cdef class Task:
    cdef readonly str name
    cdef CallSite site
    cdef list callbacks
    cdef Program program
    cdef array_bounds arrays
    cdef clockid_t caller  # of the processor time of the thread that made it
    cdef double waiting  # the timeout in seconds; negative for none
    cdef int status
    cdef int64_t sequence  # in the recorder
    cdef int64_t number  # as the user counts calls
    cdef bint packs  # whether its beginning needs the GIL
    cdef bint settles  # whether its end does
    cdef bint continues  # whether further programs run in its turn, as the same call
    cdef bint watched  # whether there are callbacks
    cdef Task next

    cdef bint is_short(self) noexcept
    cdef int begin(self) noexcept
    cdef int settle(self, int status) except -100
    cdef void keep_arrays(self) noexcept
    cdef void unpin(self) noexcept  # after its end, with the GIL
