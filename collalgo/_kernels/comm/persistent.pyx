# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls that are prepared once and made many times."""

from collalgo._kernels.comm.progress cimport Progress
from collalgo._kernels.comm.task cimport PENDING
from collalgo._kernels.comm.work cimport Work
from collalgo._kernels.engine.transport.transport cimport GO_ON

from collalgo.errors import CollalgoError


cdef class Persistent(Work):
    """A call that is prepared once and made many times with the same arrays.

    All ranks must make it in the same order as their other calls.
    """

    def __init__(self, owner, str name, Progress progress, handle_status):
        super().__init__(owner, name, progress, handle_status)
        self.status, self.repeats = GO_ON, True

    def __call__(self):
        """Make the call in the foreground and return its result."""
        if self.before is not None or self.after is not None:
            return self.start().wait()
        self.check_idle()
        self.owner.run_again(self)
        return self.value

    def start(self):
        """Make the call in the background; :meth:`wait` returns its result."""
        self.check_open()
        self.check_idle()
        self.check_turn()
        self.status, self.failure = PENDING, None
        self.progress.submit(self)
        return self

    cdef void unpin(self) noexcept:
        """Do nothing: the arrays and the program must hold for all calls."""

    cdef int check_idle(self) except -1:
        if self.status == PENDING:
            raise CollalgoError(
                f"{self.name}: this persistent call is still under way; wait for it "
                "before it is made again", collective=self.name,
            )
        return 0
