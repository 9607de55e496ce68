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
from collalgo._kernels.comm.clock cimport Clock, ticks
from collalgo._kernels.engine.program cimport Program
from collalgo._kernels.engine.transport.transport cimport COUNTED, GO_ON, OF_NEXT

cdef extern from "Python.h":
    ctypedef struct PyCodeObject:
        pass
    int PyCode_Addr2Line(PyCodeObject *code, int instruction)

cdef extern from * nogil:
    int ACQUIRE "__ATOMIC_ACQUIRE"
    int RELEASE "__ATOMIC_RELEASE"
    int load "__atomic_load_n"(const int *word, int order)
    void store "__atomic_store_n"(int *word, int value, int order)

cdef enum:
    CALLS = 1024  # that the ring keeps in the end, and at first; powers of two
    FEW_CALLS = 16


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


cdef struct call_sums:
    int64_t calls, failed, nbytes
    double nanoseconds


cdef int add_sums(dict found, PyObject *program, call_sums sums) except -1:
    """Add the sums of some calls of a program, or of none, to those of all programs."""
    if program != NULL:
        known = found.get(<Program>program, (0, 0, 0, 0.0))
        found[<Program>program] = (
            known[0] + sums.calls, known[1] + sums.failed, known[2] + sums.nbytes,
            known[3] + sums.nanoseconds,
        )
    return 0


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
        self.due = FEW_CALLS - 1

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
        if self.count >= self.due:
            self.turn()
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

    cdef int change(self, int64_t sequence, Program program) except -1:
        """Record that a call continues with another program, for which it counts."""
        cdef call_entry *entry = self.at(sequence)
        if entry == NULL or program.record.number != COUNTED:
            return 0
        cdef PyObject *old_program = replaced(&entry.program, <PyObject *>program)
        cdef PyObject *old_counts = replaced(&entry.counts, <PyObject *>program.counts)
        entry.count = program.record.count
        Py_XDECREF(old_program)
        Py_XDECREF(old_counts)
        return 0

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
            entry.ended = ticks()
            store(&entry.state, status, RELEASE)  # last, as other threads read it

    cdef int complete(self) except -1:
        """Enlarge the ring to its full size, before a second thread uses it."""
        if self.capacity < CALLS:
            self.grow(CALLS)
        return 0

    cdef int turn(self) except -1:
        """Enlarge a small ring that is full, and pass its calls on before they are lost."""
        if self.count + 1 >= self.capacity and self.capacity < CALLS:
            self.grow(2 * self.capacity)
        self.due = self.capacity - 1 if self.capacity < CALLS else <int64_t>1 << 62
        if self.tally is not None:
            self.due = min(self.due, self.count + self.capacity // 2)
            self.count_calls()
        return 0

    def start_tally(self, tally):
        """Pass the sums of calls on, from now on and of those that the ring still has.

        ``tally`` is called with what :meth:`count_calls` finds; it must not raise.
        """
        self.tally, self.due = tally, self.count

    def count_calls(self):
        """Pass the calls on that have ended since the last time, up to one that has not.

        These are for each program the calls, those that failed, the bytes and the
        nanoseconds; and the number of calls that were overwritten before.
        """
        cdef int64_t first = max(self.tallied, self.count - self.capacity) + 1
        cdef int64_t last = first - 1, lost = last - self.tallied
        if self.tally is None:
            return
        while last < self.count and self.has_ended(last + 1):
            last += 1
        self.tallied = last  # first, as other threads may run below
        found = self.sums_of(first, last)
        if found or lost:
            self.tally(found, lost)

    cdef dict sums_of(self, int64_t first, int64_t last):
        """The sums of the user's calls in a range, by their programs."""
        cdef int64_t sequence
        cdef call_entry *entry
        cdef PyObject *program = NULL
        cdef call_sums sums
        cdef double rate = Clock().rate
        cdef dict found = {}
        for sequence in range(first, last + 1):
            entry = self.at(sequence)
            if entry == NULL or (<Program>entry.program).record.number != COUNTED:
                continue
            if entry.program != program:  # most calls run the program of the call before
                add_sums(found, program, sums)
                sums = call_sums(0, 0, 0, 0.0)
                program = entry.program
            sums.calls += 1
            sums.failed += entry.state != GO_ON
            sums.nbytes += entry.count * (<Program>entry.program).itemsize
            sums.nanoseconds += (entry.ended - entry.begun) * rate
        add_sums(found, program, sums)
        return found

    cdef bint has_ended(self, int64_t sequence) noexcept nogil:
        cdef call_entry *entry = self.at(sequence)
        if entry == NULL:
            return False
        cdef int state = load(&entry.state, ACQUIRE)
        return state != QUEUED and state != UNDER_WAY

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
