# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The values of steps: the inner loops of :mod:`collalgo.schedule.prover`.

Steps are numbered through all ranks. Every loop walks the same list of events: twice
the number of a step when its rank enters it, plus one when the step ends.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

import numpy as np

ctypedef const int64_t[::1] ints


class Fault(Exception):
    """An impossible transfer: the fault, its number, and the cell."""


cdef enum:
    NOWHERE = -1
    OVERWRITTEN = 2


cdef class SymbolicReplay:
    """Moves symbolic values between ranks along the messages of a schedule.

    Parameters
    ----------
    tables
        Arrays by name, of :meth:`collalgo.schedule.replay.Replay.tables`.
    values
        The value of each cell (columns) at each rank (rows); 0 where undefined.
    cells
        The cells of one buffer.
    terms
        The :class:`collalgo.schedule.symbolic.Terms` that combine two values.
    """
    cdef ints rank_of, first_out, outgoing, first_in, incoming, first_taking, taking
    cdef ints sent_place, message_of, peer, place, reduces, first_run, start, stop, bank
    cdef int32_t[:, ::1] values
    cdef int32_t[::1] total
    cdef int64_t[::1] arrived
    cdef char[::1] owned
    cdef int64_t cells, messages, last_key, last_value
    cdef int32_t **flying
    cdef object terms
    cdef dict known

    def __cinit__(self, dict tables, int32_t[:, ::1] values, int64_t cells, terms):
        self.read_tables(tables)
        self.values = values
        self.total = np.zeros(values.shape[1], np.int32)
        self.arrived = np.full(values.shape[1], NOWHERE, np.int64)
        self.owned = np.zeros(values.shape[1], np.int8)
        self.cells, self.last_key = cells, -1
        self.terms, self.known = terms, terms.known
        self.messages = self.sent_place.shape[0]
        self.flying = <int32_t **>malloc((self.messages + 1) * sizeof(void *))
        if self.flying == NULL:
            raise MemoryError
        for m in range(self.messages):
            self.flying[m] = NULL

    def __dealloc__(self):
        cdef int64_t m
        if self.flying != NULL:
            for m in range(self.messages):
                free(self.flying[m])
            free(self.flying)

    cdef int read_tables(self, dict tables) except -1:
        self.rank_of = tables["rank_of"]
        self.first_out, self.outgoing = tables["outgoing"]
        self.first_in, self.incoming = tables["incoming"]
        self.first_taking, self.taking = tables["taking"]
        self.sent_place, self.message_of = tables["sent_place"], tables["message_of"]
        self.peer, self.place = tables["peer"], tables["place"]
        self.reduces = tables["reduces"]
        self.first_run, self.bank = tables["first_run"], tables["bank"]
        self.start, self.stop = tables["start"], tables["stop"]
        return 0

    def run(self, ints events):
        """Replay the events; raises Fault for an impossible transfer."""
        cdef int64_t e, i, step
        for e in range(events.shape[0]):
            step = events[e] // 2
            if events[e] % 2 == 0:
                for i in range(self.first_out[step], self.first_out[step + 1]):
                    self.send(self.rank_of[step], self.outgoing[i])
            else:
                self.receive(step)

    cdef int send(self, int64_t rank, int64_t message) except -1:
        cdef int64_t place = self.sent_place[message], run, cell, n = 0
        cdef int64_t shift = self.bank[place] * self.cells
        cdef int32_t *data
        for run in range(self.first_run[place], self.first_run[place + 1]):
            n += self.stop[run] - self.start[run]
        data = self.flying[message] = <int32_t *>malloc((n + 1) * sizeof(int32_t))
        if data == NULL:
            raise MemoryError
        n = 0
        for run in range(self.first_run[place], self.first_run[place + 1]):
            for cell in range(self.start[run], self.stop[run]):
                data[n] = self.values[rank, shift + cell]
                if data[n] == 0:
                    raise Fault("undefined", message, cell)
                n += 1
        return 0

    cdef int receive(self, int64_t step) except -1:
        """Combine the rank's own value and the received ones, in the order of the ranks."""
        cdef int64_t rank = self.rank_of[step], i
        for i in range(self.first_taking[step], self.first_taking[step + 1]):
            self.take(rank, self.taking[i])
        for i in range(self.first_taking[step], self.first_taking[step + 1]):
            self.settle(rank, self.taking[i])
        for i in range(self.first_in[step], self.first_in[step + 1]):
            free(self.flying[self.incoming[i]])
            self.flying[self.incoming[i]] = NULL
        return 0

    cdef int take(self, int64_t rank, int64_t transfer) except -1:
        """Add the values of one transfer to the earlier ones of the same step."""
        cdef int64_t place = self.place[transfer], message = self.message_of[transfer]
        cdef int64_t whole = self.sent_place[message], at = self.first_run[whole]
        cdef int64_t shift = self.bank[place] * self.cells, base = 0, run, cell
        cdef int32_t *data = self.flying[message]
        cdef int32_t value
        for run in range(self.first_run[place], self.first_run[place + 1]):
            if self.start[run] == self.stop[run]:
                continue
            while self.stop[at] <= self.start[run]:
                base += self.stop[at] - self.start[at]
                at += 1
            for cell in range(self.start[run], self.stop[run]):
                value = data[base + cell - self.start[at]]
                self.arrive(rank, transfer, whole, shift + cell, value)
        return 0

    cdef int arrive(
        self, int64_t rank, int64_t transfer, int64_t whole, int64_t cell, int32_t value
    ) except -1:
        cdef bint first = self.arrived[cell] == NOWHERE
        if not self.reduces[transfer]:
            if not first:
                raise Fault("overwritten", transfer, cell % self.cells)
            self.arrived[cell], self.total[cell] = whole, value
            self.owned[cell] = OVERWRITTEN
            return 0
        if self.owned[cell] == OVERWRITTEN:
            raise Fault("overwritten", transfer, cell % self.cells)
        if not first and self.arrived[cell] != whole:
            raise Fault("unequal", transfer, cell % self.cells)
        self.arrived[cell] = whole
        if self.peer[transfer] >= rank:
            self.own(rank, transfer, cell)
        self.add(transfer, cell, value)
        return 0

    cdef int own(self, int64_t rank, int64_t transfer, int64_t cell) except -1:
        """Add the rank's own value, in the order of the ranks."""
        if not self.owned[cell]:
            self.owned[cell] = True
            if self.values[rank, cell] == 0:
                raise Fault("nothing", transfer, cell % self.cells)
            self.add(transfer, cell, self.values[rank, cell])
        return 0

    cdef int settle(self, int64_t rank, int64_t transfer) except -1:
        """Set the values of the rank to the totals of the step."""
        cdef int64_t place = self.place[transfer], run, cell
        cdef int64_t shift = self.bank[place] * self.cells
        for run in range(self.first_run[place], self.first_run[place + 1]):
            for cell in range(shift + self.start[run], shift + self.stop[run]):
                if self.arrived[cell] != NOWHERE:
                    self.own(rank, transfer, cell)
                    self.values[rank, cell] = self.total[cell]
                    self.arrived[cell], self.total[cell] = NOWHERE, 0
                    self.owned[cell] = False
        return 0

    cdef int add(self, int64_t transfer, int64_t cell, int32_t value) except -1:
        if self.total[cell] == 0:
            self.total[cell] = value
        else:
            self.total[cell] = self.combined(self.total[cell], value, transfer, cell)
        return 0

    cdef int32_t combined(
        self, int32_t a, int32_t b, int64_t transfer, int64_t cell
    ) except -1:
        cdef int64_t key
        if a > b:
            a, b = b, a
        key = (<int64_t>a << 32) | b
        if key != self.last_key:
            value = self.known.get(key)
            if value is None:
                value = self.terms.combine(a, b)
                if value == 0:
                    raise Fault("twice", transfer, cell % self.cells)
            self.last_key, self.last_value = key, value
        return self.last_value
