# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls that are prepared to run in the background: their arrays, begin and end."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.comm.op_check cimport check_op
from collalgo._kernels.comm.progress cimport Progress
from collalgo._kernels.comm.task cimport PENDING, Task
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.pinning cimport keep, pinned
from collalgo._kernels.engine.rows cimport NEEDS_PACKING
from collalgo._kernels.engine.transport.transport cimport CLOSED, GO_ON

from functools import partial
from threading import get_ident

from collalgo._kernels.comm.done_callbacks import raise_in_main_thread
from collalgo._kernels.engine.program import RUN_BUSY
from collalgo.comm.failures import in_signal_handler
from collalgo.engine.arrays import READING, check_packable, packed
from collalgo.errors import CommunicatorClosed

cnp.import_array()

cdef int64_t SHORT = 1 << 17  # bytes of a call that the thread leaves to a waiter


def in_order(first, second):
    """One function that calls both; either may be None."""
    if first is None or second is None:
        return second if first is None else first

    def both():
        first()
        second()

    return both


cdef class PreparedCall(Task):
    """A call in the background, from its preparation to its end."""

    def __init__(self, owner, str name, Progress progress, handle_status):
        super().__init__(name)
        self.owner, self.progress, self.handle_status = owner, progress, handle_status
        self.status = PENDING

    def __dealloc__(self):
        self.release_programs()

    cdef int add(self, before, after) except -1:
        """Call ``before`` when the call begins to run, ``after`` at its end."""
        if before is not None:
            self.before = in_order(before, self.before)
        if after is not None:
            self.after = in_order(self.after, after)
        self.packs = self.packs or before is not None
        self.settles = self.settles or after is not None
        return 0

    @property
    def place(self):
        """The file and the line of the call."""
        return self.site.place

    cdef int check_open(self) except -1:
        """Check that calls can be made: not after a fork, nor after the end."""
        if self.progress.is_over():
            self.handle_status(None, None, None, -1, self.name, CLOSED, None)
        return 0

    cdef int check_turn(self) except -1:
        """Check that no other thread is in a call in the foreground."""
        if self.progress.is_taken(self.name):
            self.handle_status(None, None, None, -1, self.name, RUN_BUSY, None)
        return 0

    cdef int prepare(
        self, Program program, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double waiting
    ) except -1:
        """Set the program and the arrays of the call, or of one that follows it."""
        if READING and get_ident() in READING:  # code of an array makes this call
            raise in_signal_handler(self.owner.rank, self.name)
        if self.program is not None:
            return self.follow(program, source, target, waiting)
        self.program, self.source, self.target = program, source, target
        self.scratch, self.waiting = scratch, waiting
        self.pins = pinned(source, target)
        self.find_arrays()
        program.users += 1
        self.uses, self.settles = True, self.settles or program.is_python_op
        return 0

    cdef int follow(self, Program program, source, target, double waiting) except -1:
        """Run another program after the first."""
        if self.followers is None:
            self.followers = []
        program.users += 1
        self.followers.append(program)
        run = partial(self.owner.run, program, source, target, waiting, self.name)
        return self.add(None, run)

    cdef int prepare_on_device(
        self, pending_call, cnp.ndarray scratch, double waiting
    ) except -1:
        """Set a call on arrays on devices, which continues when all ranks have made it."""
        if self.repeats:
            raise TypeError(
                f"{self.name}: on arrays on a device, capture the call itself in a "
                "graph, which can be launched again and again"
            )
        self.prepare(
            pending_call.exchange, pending_call.mine, pending_call.everyone, scratch, waiting
        )
        self.pending_call, self.settles = pending_call, True
        return 0

    cdef bint is_short(self) noexcept:
        cdef int64_t size = 0
        if self.source is not None:
            size = cnp.PyArray_NBYTES(self.source)
        if self.target is not None:
            size = max(size, cnp.PyArray_NBYTES(self.target))
        if self.continues or self.pending_call is not None:  # whose arrays are others
            return False
        return size <= SHORT

    cdef int find_arrays(self) except -1:
        """Find the addresses of the arrays, and whether they must be packed."""
        cdef int status = self.program.bind(
            &self.arrays, self.source, self.target, self.scratch
        )
        if status == NEEDS_PACKING:
            check_packable(self.source, self.target, self.name)
            self.is_packed = self.packs = self.settles = True
        return 0

    cdef int pack(self) except -1:
        """Copy the arrays to contiguous memory and bind the program to it."""
        self.packed_source, self.packed_target = packed(
            self.source, self.target, self.name
        )
        self.program.bind(
            &self.arrays, self.packed_source, self.packed_target, self.scratch
        )
        return 0

    cdef int begin(self) noexcept:
        """Pack the arrays after the earlier calls have ended: GO_ON, or CLOSED."""
        try:
            if self.before is not None:
                self.before()
            if self.is_packed:
                self.pack()
        except BaseException as error:
            self.fail(error)
            self.progress.interrupted(self.name, error)
            return CLOSED
        return GO_ON

    cdef void keep_arrays(self) noexcept:
        """Keep the arrays permanently, since an engine still uses them."""
        keep((
            self.source, self.target, self.packed_source, self.packed_target,
            self.scratch, self.pins,
        ))

    cdef void unpin(self) noexcept:
        self.pins = self.before = self.after = None  # which may refer to the call
        self.release_programs()

    cdef void release_programs(self) noexcept:
        """Allow the programs to be filled in again."""
        cdef Program program
        if self.uses and self.program is not None:
            self.program.users -= 1
        self.uses, followers, self.followers = False, self.followers, None
        if followers is not None:
            for program in followers:
                program.users -= 1

    cdef int settle(self, int status) except -100:
        """Unpack the result, or find the error: the status of the call."""
        if self.failure is not None:  # before it had begun
            return CLOSED
        try:
            if status == GO_ON:
                return self.complete()
            self.raise_status(status)
        except BaseException as error:
            file, line = self.place
            if hasattr(error, "add_note"):  # from Python 3.11 on
                error.add_note(f"called in the background at {file}:{line}")
            self.fail(error)
        return CLOSED

    cdef int fail(self, error) except -1:
        """Set the error, and note it for the end of the process, without its frames."""
        self.failure = error
        if not isinstance(error, Exception):  # this may be a thread of ours
            raise_in_main_thread(error)
        self.progress.is_known |= bool(self.callbacks)
        if self.progress.failed is None:
            why = str(self.failure)
            self.progress.failed = self.name, self.number, self.place, why
        return 0

    cdef int complete(self) except -100:
        """Finish a call that has succeeded."""
        if self.program.is_python_op:
            check_op(self.owner, self.program, self.waiting, self.name, False)
        if self.pending_call is not None:
            self.pending_call.enqueue()
        if self.packed_target is not None:
            (<object>self.target)[...] = self.packed_target
        if self.after is not None:
            self.after()
        self.packed_source = self.packed_target = None
        return GO_ON

    cdef int raise_status(self, int status) except -1:
        """Raise the error of a call that has failed."""
        self.handle_status(
            self.program, self.source, self.target, self.waiting, self.name, status, None
        )
        raise CommunicatorClosed(
            f"{self.name}: the communicator was closed before this call had ended",
            collective=self.name,
        )
