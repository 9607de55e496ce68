# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The flight recorder: a ring buffer of the last calls of a rank, always on.

A record holds pointers to objects that exist anyway, the program, the counts and the
code of the caller; the rest is computed when the record is read.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_XDECREF, Py_XINCREF
from libc.stdint cimport int64_t

from collalgo._kernels.comm.call_site cimport CallSite, calling_code
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.transport.transport cimport (
    COUNTED,
    GO_ON,
    OF_NEXT,
    Transport,
    step_time,
)

cdef extern from "Python.h":
    ctypedef struct PyCodeObject:
        pass
    int PyCode_Addr2Line(PyCodeObject *code, int instruction)

cdef enum:
    CALLS = 1024  # that the ring keeps in the end, and at first; powers of two
    FEW_CALLS = 16
    LOOKS = 5  # readings of both clocks

cdef struct moment:
    int64_t tick, nanosecond


cdef moment now() noexcept nogil:
    """The same moment on both clocks: the fastest of several readings.

    A thread may lose its core between the two clocks, for milliseconds.
    """
    cdef int64_t begun, nanosecond, taken, least = -1
    cdef moment found
    for _ in range(LOOKS):
        begun, nanosecond = ticks(), nanoseconds()
        taken = ticks() - begun
        if least < 0 or taken < least:
            least = taken
            found.tick, found.nanosecond = begun, nanosecond
    return found


cdef moment FIRST = now()


cdef class Clock:
    """Converts ticks to nanoseconds of the monotonic clock."""
    cdef double rate
    cdef moment begun

    def __init__(self):
        self.begun = now()
        self.rate = 1.0
        if self.begun.tick > FIRST.tick:
            self.rate = <double>(self.begun.nanosecond - FIRST.nanosecond)
            self.rate /= self.begun.tick - FIRST.tick

    cpdef int64_t time(self, int64_t tick):
        return self.begun.nanosecond + <int64_t>((tick - self.begun.tick) * self.rate)


cdef class StepLog:
    """Logs the begin and the end of the steps of a rank's calls.

    Parameters
    ----------
    transport : Transport
        The rank's end; it must be idle when the log begins and ends.
    capacity : int
        The most steps that are logged.
    """

    def __init__(self, Transport transport, int64_t capacity):
        self.log.steps = <step_time *>PyMem_Calloc(capacity, sizeof(step_time))
        if self.log.steps == NULL:
            raise MemoryError
        self.log.capacity = capacity
        self.transport = transport
        transport.log = &self.log

    def __dealloc__(self):
        if self.transport is not None and self.transport.log == &self.log:
            self.transport.log = NULL
        PyMem_Free(self.log.steps)

    def end(self):
        """Stop: call, slice, step, begin and end of each step, and the number lost."""
        cdef Clock clock = Clock()
        cdef step_time note
        cdef int64_t i, kept = min(self.log.count, self.log.capacity)
        self.transport.log = NULL
        rows = []
        for i in range(kept):
            note = self.log.steps[i]
            times = clock.time(note.begun), clock.time(note.ended)
            rows.append((note.call, note.slice, note.step, *times))
        return rows, self.log.count - kept


cdef inline PyObject *replaced(PyObject **place, PyObject *found) noexcept:
    """Refer to another object: the one before, to be released, or NULL if it is the same."""
    cdef PyObject *before = place[0]
    if before == found:
        return NULL
    Py_XINCREF(found)
    place[0] = found
    return before


cdef inline void place_call(call_entry *entry, CallSite site) noexcept:
    """Record where a call is made: now or, with a site, where it was queued."""
    if site is not None:
        entry.state = QUEUED
        entry.code = <PyObject *>site.code
        Py_XINCREF(entry.code)
        entry.instruction = site.instruction
    else:
        entry.state = UNDER_WAY
        entry.code = calling_code(&entry.instruction)


cdef class Recorder:
    """The last calls of a rank on a communicator.

    Attributes
    ----------
    capacity : int
        The most calls that are kept.
    count : int
        The number of calls so far, with those of the library.
    calls : int
        Those of them that the user counts.
    """

    def __init__(self):
        self.capacity = FEW_CALLS  # as most groups make few calls
        self.ring = <call_entry *>PyMem_Calloc(FEW_CALLS, sizeof(call_entry))
        if self.ring == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef int64_t i
        if self.ring != NULL:
            for i in range(self.capacity):
                Py_XDECREF(self.ring[i].program)
                Py_XDECREF(self.ring[i].counts)
                Py_XDECREF(self.ring[i].code)
            PyMem_Free(self.ring)

    cdef int64_t enter(self, Program program, CallSite site) except -1:
        """Record a call that begins now or, with a site, is queued: its sequence number."""
        if self.count + 1 == self.capacity and self.capacity < CALLS:
            self.grow(2 * self.capacity)
        self.count += 1
        self.calls += program.record.number == COUNTED
        cdef int64_t sequence = self.count
        cdef call_entry *entry = &self.ring[sequence & (self.capacity - 1)]
        cdef PyObject *old_program = replaced(&entry.program, <PyObject *>program)
        cdef PyObject *old_counts = replaced(&entry.counts, <PyObject *>program.counts)
        cdef PyObject *old_code = entry.code
        entry.sequence, entry.count = sequence, program.record.count
        entry.number = self.calls + (program.record.number == OF_NEXT)
        place_call(entry, site)
        entry.queued = entry.begun = ticks()
        entry.ended = 0
        Py_XDECREF(old_program)  # last, since it may run other threads
        Py_XDECREF(old_counts)
        Py_XDECREF(old_code)
        return sequence

    cdef call_entry *at(self, int64_t sequence) noexcept nogil:
        """The record of a call, or NULL if it was overwritten."""
        cdef call_entry *entry = &self.ring[sequence & (self.capacity - 1)]
        return entry if entry.sequence == sequence else NULL

    cdef void begin(self, int64_t sequence) noexcept nogil:
        """Record that a queued call begins."""
        cdef call_entry *entry = self.at(sequence)
        if entry != NULL:
            entry.state = UNDER_WAY
            entry.begun = ticks()

    cdef void end(self, int64_t sequence, int status) noexcept nogil:
        """Record the end of a call and its status."""
        cdef call_entry *entry = self.at(sequence)
        if entry != NULL:
            entry.state = status
            entry.ended = ticks()

    cdef int complete(self) except -1:
        """Enlarge the ring to its full size, before a second thread uses it."""
        if self.capacity < CALLS:
            self.grow(CALLS)
        return 0

    def grow(self, int64_t capacity):
        """Enlarge the ring to at least ``capacity`` calls, while none is in the background."""
        cdef call_entry *ring
        cdef int64_t sequence, larger = self.capacity
        while larger < capacity:
            larger *= 2
        if larger == self.capacity:
            return
        ring = <call_entry *>PyMem_Calloc(larger, sizeof(call_entry))
        if ring == NULL:
            raise MemoryError
        for sequence in range(max(1, self.count - self.capacity + 1), self.count + 1):
            ring[sequence & (larger - 1)] = self.at(sequence)[0]
        PyMem_Free(self.ring)
        self.ring, self.capacity = ring, larger

    def program(self, int64_t sequence):
        """The program of a call that is in the ring."""
        cdef call_entry *entry = self.at(sequence)
        if entry == NULL or entry.program == NULL:
            raise KeyError(sequence)
        return <object>entry.program

    def plan(self, int64_t sequence):
        """The plan of a call that is in the ring."""
        cdef Program program = self.program(sequence)
        cdef call_entry *entry = self.at(sequence)
        return program.plan_for(entry.count, <object>entry.counts)

    def records(self):
        """The records, the oldest first: a dict for each call that the ring still has."""
        clock = Clock()
        calls = range(max(1, self.count - self.capacity + 1), self.count + 1)
        return [self.record(n, clock) for n in calls if self.at(n) != NULL]

    def record(self, int64_t sequence, Clock clock):
        cdef call_entry *entry = self.at(sequence)
        cdef Program program = <Program>entry.program
        states = {QUEUED: "queued", UNDER_WAY: "under way", GO_ON: "done"}
        found = {
            "sequence": sequence,
            "number": entry.number,
            "state": states.get(entry.state, "failed"),
            **program.call(),
            "count": entry.count,
            "queued": clock.time(entry.queued),
            "begun": clock.time(entry.begun),
            "ended": clock.time(entry.ended) if entry.ended else None,
            "place": None,
        }
        if entry.code != NULL:
            file = (<object>entry.code).co_filename
            line = PyCode_Addr2Line(<PyCodeObject *>entry.code, entry.instruction)
            found["place"] = f"{file}:{line}"
        if entry.state == UNDER_WAY:
            found.update(program.position())
        return found
