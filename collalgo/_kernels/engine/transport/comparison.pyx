# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Comparison of calls between hosts, requested by a rank that has waited for long.

Messages reveal calls that differ, but only if the calls exchange any.
"""

from libc.stdint cimport int64_t

from collalgo._kernels.engine.transport.endpoint cimport endpoint
from collalgo._kernels.engine.transport.shared_memory cimport SharedMemory
from collalgo._kernels.engine.transport.transport cimport as_record, call_record

#: Seconds that a rank waits in a call before it asks for the calls of the others, and the
#: additional delay by rank: one question is enough for all.
cdef double PATIENCE = 1.0
cdef double STAGGER = 0.5

#: The longest time between two questions, in seconds; it doubles up to this.
cdef double SELDOM = 16.0


cdef class Comparison:
    """The last calls of a rank, and the time to ask for those of others.

    Parameters
    ----------
    shared : SharedMemory
        Its channels inside its host.
    rank, size : int
        The rank, and the number of ranks of the world.
    """

    def __init__(self, SharedMemory shared, int64_t rank, int64_t size):
        self.shared = shared
        self.rank = rank
        self.patience = PATIENCE + STAGGER * rank / size

    def ask(self, questions, str name):
        """Put a name into a queue whenever a call has waited for long.

        The queue must be a ``queue.SimpleQueue``, which runs no Python code.
        """
        self.questions, self.name = questions, name

    def calls(self):
        """The last calls of this rank, in order."""
        return [{**call, "rank": self.rank} for call in self.shared.calls()]

    def defer(self, int64_t sequence):
        """Delay the question about a call: another rank has asked it."""
        if self.shared.open().sequence == sequence:
            self.ask_later()

    def differs(self, dict theirs):
        """Report a mismatch with the call of another rank."""
        cdef call_record record = as_record(theirs)
        self.shared.open()
        self.shared.report_failure(True, theirs["rank"], theirs["sequence"], &record)

    cdef void ask_if_due(self) noexcept nogil:
        """Ask the other hosts for their calls, if this call has waited for long."""
        cdef endpoint *end = self.shared.end
        cdef double first = self.patience
        if self.asked != end.sequence:
            self.asked = end.sequence
            self.silent = min(first, end.timeout / 4) if end.timeout >= 0 else first
        if end.checked - end.waiting_since >= self.silent:
            self.ask_later()
            if self.name is not None:
                with gil:
                    self.questions.put(self.name)

    cdef void ask_later(self) noexcept nogil:
        cdef endpoint *end = self.shared.end
        cdef double waited = end.checked - end.waiting_since if end.waiting_since else 0
        self.asked = end.sequence
        self.silent = waited + min(max(waited, PATIENCE), SELDOM)
