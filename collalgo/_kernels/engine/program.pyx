# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loop that runs plans, slice by slice and step by step, without the GIL."""

cimport cython
cimport numpy as cnp
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t
from libc.string cimport memcmp, memcpy, strncpy

from collalgo._kernels.engine.buffer_length cimport (
    NONE,
    buffer_length,
    elements_of_blocks,
    fingerprint_of,
    measure,
)
from collalgo._kernels.engine.filling cimport Filling
from collalgo._kernels.engine.pinning cimport keep_arrays, pinned
from collalgo._kernels.engine.reduction.reduce cimport Reduction
from collalgo._kernels.engine.rows cimport NEEDS_PACKING, NEEDS_SCRATCH, array_bounds
from collalgo._kernels.engine.steps cimport Steps
from collalgo._kernels.engine.transport.transport cimport (
    CLOSED,
    COUNTED,
    FORKED,
    GO_ON,
    NAME_BYTES,
    SIGNALS,
    STOP,
    Transport,
    as_dict,
    step_log,
    step_time,
)

from collalgo.engine.plan.copying import Copying

cnp.import_array()

cdef extern from "ticks.h" nogil:
    int64_t ticks()

cdef extern from "Python.h" nogil:
    PyThreadState *PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState *thread)
    int check_signals "Py_MakePendingCalls"()  # also what callbacks raise

cdef enum:
    BRIEF_BYTES = 65536  # a shorter call ends before another thread needs the GIL

#: The status of a run: done, failed on every rank, or not begun.
RUN_DONE, RUN_FAILED, RUN_CLOSED, RUN_FORKED = GO_ON, STOP, CLOSED, FORKED
RUN_BUSY, RUN_NEEDS_PACKING, RUN_NEEDS_SCRATCH = BUSY, NEEDS_PACKING, NEEDS_SCRATCH


@cython.final
cdef class Program(Steps):
    """A template with its reduction and the record that the ranks compare.

    A length fills it in, again and again, but not while the program is in use.

    Parameters
    ----------
    template, reduction, divisor, copying
        As of :class:`Steps`.
    record : tuple
        Fingerprint, collective, dtype, op, root, count, and the name of the algorithm.
        If the count is None, the count of the length is used.
    itemsize, shares : int
        The bytes of an element, and the equal blocks of what a rank passes, 0 if borders
        are free.
    passed, counted : tuple of int, int
        First and end of the blocks that this rank passes, if there are counts; whether
        the user counts it: ``WHOLE_CALL``, ``PART_OF_NEXT`` or ``PART_OF_LAST``.

    Attributes
    ----------
    counts : tuple of int or None
        The elements of each block, as they were passed.
    """

    def __init__(
        self, template, Reduction reduction, int64_t divisor, tuple record,
        copying=Copying(), int64_t itemsize=1, int64_t shares=0, passed=(0, 0),
        int counted=COUNTED
    ):
        Steps.__init__(self, template, reduction, divisor, copying)
        (
            self.fingerprint, self.record.collective, self.record.dtype,
            self.record.op, self.record.root, count, self.algorithm
        ) = record
        self.counts_elements = count is None
        self.record.count = self.record.passed = 0 if count is None else count
        self.itemsize, self.shares, self.record.number = itemsize, shares, counted
        self.passed[0], self.passed[1] = passed
        self.called = NONE
        name = self.algorithm.encode()
        strncpy(self.record.algorithm, <bytes>name, NAME_BYTES - 1)

    cdef int fill(self, const buffer_length *length) except -1:
        """Fill in the bytes of a buffer, and what the ranks compare of its length."""
        cdef int64_t i
        Steps.fill(self, length)
        self.called, self.each, self.nbytes = length.called, length.each, 0
        for i in range(self.pieces_end):
            self.nbytes += self.pieces[i].nbytes
        self.brief = self.slices == 1 and self.nbytes <= BRIEF_BYTES
        self.record.fingerprint = fingerprint_of(self.fingerprint, length, self.blocks)
        if self.counts_elements:
            self.record.count = length.called
            self.record.passed = elements_of_blocks(length, self.passed)
        return 0

    cdef int fill_counts(self, const buffer_length *length, tuple counts) except -1:
        """Fill in a length, and keep its counts."""
        self.counts = counts
        if length.starts != NULL:
            memcpy(self.starts, length.starts, (self.blocks + 1) * sizeof(int64_t))
        return self.fill(length)

    cdef bint has_length(self, const buffer_length *length) noexcept nogil:
        """Whether a length is filled in already."""
        if self.called != length.called or self.each != length.each:
            return False
        return length.starts == NULL or memcmp(
            self.starts, length.starts, (self.blocks + 1) * sizeof(int64_t)
        ) == 0

    def plan_for(self, int64_t count, tuple counts):
        """The plan of a call that was recorded with these counts."""
        cdef buffer_length length
        cdef Filling filling = self
        if count != self.called or counts is not self.counts:
            filling = Filling(self.template)
            measure(&length, count, counts, self.shares, self.blocks, filling.starts)
            length.itemsize = self.itemsize
            filling.fill(&length)
        return self.template.filled(filling)

    @property
    def plan(self):
        """The plan of the latest length."""
        return self.template.filled(self)

    cpdef int run(
        self, Transport transport, cnp.ndarray source, cnp.ndarray target,
        cnp.ndarray scratch, double timeout
    ) except -100:
        """Run the plan once: one of the RUN_ values; a negative timeout means none.

        The GIL is released, in a short call only if it has to wait: releasing and taking
        it takes as long as a message.
        """
        cdef int status
        if transport.busy:
            return BUSY
        status = self.bind(&self.arrays, source, target, scratch)
        if status != GO_ON:
            return status
        if self.steps_end == 0 and transport.size == 1:
            status = transport.enter(&self.record, timeout)
            if status == GO_ON:
                self.begin_slice(0)
                self.finish()
            return status
        self.source, self.target = <void *>source, <void *>target
        self.scratch = <void *>scratch
        return run_bound(self, transport, timeout)

    cdef int run_without_gil(
        self, Transport transport, const array_bounds *arrays, double timeout
    ) noexcept nogil:
        """Run the plan once, on arrays that are bound already."""
        cdef int status
        self.arrays = arrays[0]
        self.has_gil = False
        transport.busy = True
        status = self.execute(transport, timeout)
        transport.busy = False
        return status

    cdef void release_gil(self) noexcept nogil:
        """Release the GIL, and pin the arrays, which other threads could resize."""
        with gil:
            self.pins = pinned(
                <cnp.ndarray>self.source if self.source != NULL else None,
                <cnp.ndarray>self.target if self.target != NULL else None,
            )
        self.has_gil = False
        self.thread = PyEval_SaveThread()

    def repeat(self, Transport transport, int64_t times):
        """Run a plan without buffers many times, to measure the transport."""
        self.source = self.target = self.scratch = NULL
        if self.nbytes:
            raise ValueError("only a plan that moves no bytes can be repeated")
        self.release_gil()
        for _ in range(times):
            if self.execute(transport, -1) != GO_ON:
                break
        PyEval_RestoreThread(self.thread)

    cdef int execute(self, Transport transport, double timeout) noexcept nogil:
        cdef int status = transport.enter(&self.record, timeout)
        if status == GO_ON:
            if self.offers_end:
                self.offer(transport)
            status = run_slices(self, transport)
            if status == GO_ON and transport.is_needed():
                status = self.settle(transport)
            if status == GO_ON:
                transport.leave()
            else:
                self.forget_segments()
                transport.in_use = transport.forget()
        else:
            transport.in_use = False
        return status

    cdef int run_logged(
        self, Transport transport, int64_t step, step_log *log
    ) noexcept nogil:
        """Run a step, and log its begin and end."""
        cdef int64_t begun = ticks()
        cdef int status = self.run_step(transport, step)
        cdef step_time *entry
        if log.count < log.capacity:
            entry = &log.steps[log.count]
            entry.call, entry.slice, entry.step = log.call, self.slice, step
            entry.begun, entry.ended = begun, ticks()
        log.count += 1
        return status

    cdef int settle(self, Transport transport) noexcept nogil:
        """Wait until all peers have received the messages of this rank."""
        cdef int64_t idle = 0
        cdef int status = GO_ON
        while status == GO_ON and transport.is_needed():
            status = self.pause(transport, &idle)
        if idle:
            transport.resume()
        return status

    cdef int pause(self, Transport transport, int64_t *idle) noexcept nogil:
        """Pause once: GO_ON, STOP or INTERRUPTED."""
        if self.has_gil and idle[0] >= transport.patience:
            self.release_gil()
        cdef int status = transport.pause(idle)
        if status == SIGNALS:
            with gil:
                transport.handler = PyThread_get_thread_ident()
                status = INTERRUPTED if check_signals() else GO_ON
                transport.handler = 0
        return status

    def call(self):
        """The arguments that the ranks compare, as numbers, and the algorithm."""
        found = as_dict(&self.record)
        del found["sequence"], found["fingerprint"], found["number"], found["passed"]
        return {**found, "algorithm": self.algorithm}  # which is cut in the record


cdef inline int run_bound(
    Program program, Transport transport, double timeout
) except -100:
    """Run a plan once on bound arrays, holding the GIL at first."""
    cdef int status
    transport.busy = True
    program.has_gil = True
    if not program.brief:
        program.release_gil()
    status = program.execute(transport, timeout)
    if not program.has_gil:
        PyEval_RestoreThread(program.thread)
        program.has_gil = True
    if status != GO_ON and transport.in_use:
        keep_arrays(program.source, program.target, program.scratch, program.pins)
    if program.pins is not None:
        program.pins = None
    transport.busy = False
    return status


cdef inline int run_slices(Program program, Transport transport) noexcept nogil:
    """Run the steps of a plan on one slice after the other."""
    cdef int64_t slice, step
    cdef int status = GO_ON
    program.world = transport.size
    for slice in range(program.slices):
        program.begin_slice(slice)
        for step in range(program.steps_end):
            if transport.log == NULL:
                status = program.run_step(transport, step)
            else:
                status = program.run_logged(transport, step, transport.log)
            if status != GO_ON:
                return status
        if program.copies_end or program.divisions_end:
            program.finish()
    return GO_ON
