# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A call in the background as the queue sees it: its program, arrays and state."""

from collalgo._kernels.comm.call_site cimport CallSite
from collalgo._kernels.engine.transport.transport cimport GO_ON


cdef class Task:
    """A call in the background as the queue sees it."""

    def __init__(self, str name):
        self.name = name
        self.site = CallSite()
        self.callbacks = []

    cdef bint is_short(self) noexcept:
        """Whether waking a thread takes longer than the call."""
        return False

    cdef int begin(self) noexcept:
        """Do what needs the GIL before the call: GO_ON, or CLOSED."""
        return GO_ON

    cdef int settle(self, int status) except -100:
        """Do what needs the GIL after the call: its status."""
        return status

    cdef void keep_arrays(self) noexcept:
        """Keep the arrays permanently, since an engine still uses them."""

    cdef void unpin(self) noexcept:
        """Allow the arrays and the program to be changed again after the call."""
