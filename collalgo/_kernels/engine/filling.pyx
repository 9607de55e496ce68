# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bytes of a plan: those of its template's parts in a buffer of some length.

A template is filled in again and again, in the same memory and in time proportional to
its rows, without Python objects. See :mod:`collalgo.engine.plan.rows`.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

import numpy as np

from collalgo._kernels.engine.borders cimport Borders
from collalgo._kernels.engine.buffer_length cimport NONE, buffer_length, measure
from collalgo._kernels.engine.template_tables cimport (
    message_row,
    step_row,
    template_row,
)

cnp.import_array()


cdef object copy_of(const void *table, int64_t rows, int64_t columns=0):
    """A copy of a table as an array, of one dimension without columns."""
    cdef cnp.ndarray found = np.empty(rows * max(columns, 1), np.int64)
    memcpy(cnp.PyArray_DATA(found), table, cnp.PyArray_NBYTES(found))
    return found.reshape(rows, columns) if columns else found


cdef inline bint fill_piece(
    Borders places, const template_row *row, piece_row *piece
) noexcept nogil:
    """Fill in a piece: whether it is kept.

    Pieces without bytes are dropped, except those of messages without chunks (tokens).
    """
    cdef int64_t start = places.border_bytes[row.first]
    cdef int64_t nbytes = places.border_bytes[row.last] - start
    if nbytes == 0 and row.first != row.last:
        return False
    piece.offset, piece.nbytes = start, nbytes
    piece.source, piece.target = row.source, row.target
    piece.source_offset = places.origins[row.source_run] + start
    piece.target_offset = places.origins[row.target_run] + start
    piece.action = row.action
    return True


cdef class Filling(Borders):
    """The rows of a template, with the bytes of a buffer of some length.

    Parameters
    ----------
    template : collalgo.engine.plan.rows.PlanTemplate
        The rows in parts of the buffer.
    """

    def __init__(self, template):
        Borders.__init__(self, template)
        self.allocate()
        self.allocate_reduced()

    cdef int allocate(self) except -1:
        """Make the memory that each length fills."""
        self.pieces = <piece_row *>self.room(PIECE * self.all_pieces)
        self.copies = <piece_row *>self.room(PIECE * self.all_copies)
        self.divisions = <piece_row *>self.room(PIECE * self.all_divisions)
        self.before = <int64_t *>self.room(self.all_pieces + 1)
        self.message_numbers = <int64_t *>self.room(self.full.messages_end)
        self.earlier = <int64_t *>self.room(2 * self.lanes)
        return 0

    cdef int allocate_reduced(self) except -1:
        """Make the memory of the tables without empty messages."""
        self.reduced.steps = <const step_row *>self.room(STEP * self.full.steps_end)
        self.reduced.messages = <const message_row *>self.room(
            MESSAGE * self.full.messages_end
        )
        self.reduced.numbers = <const int64_t *>self.room(self.channels_end)
        self.reduced.hazards = <const int64_t *>self.room(self.all_hazards)
        self.reduced.direct = <const int64_t *>self.room(self.full.messages_end)
        self.reduced.forwards = <const int64_t *>self.room(self.full.messages_end)
        return 0

    cdef int fill(self, const buffer_length *length) except -1:
        """Fill in the bytes of a buffer of some length."""
        self.place_parts(length)
        self.copies_end = self.fill_pieces(
            self.copy_template, self.all_copies, self.copies, NULL
        )
        self.divisions_end = self.fill_pieces(
            self.division_template, self.all_divisions, self.divisions, NULL
        )
        self.pieces_end = self.fill_pieces(
            self.piece_template, self.all_pieces, self.pieces, self.before
        )
        if self.pieces_end < self.all_pieces:
            self.drop_empty()
            self.tables = self.reduced
        else:
            self.tables = self.full
        self.steps, self.messages = self.tables.steps, self.tables.messages
        self.steps_end = self.tables.steps_end
        return 0

    def fill_layout(self, layout):
        """Fill in the bytes of a :class:`collalgo.engine.plan.layout.Layout`."""
        cdef buffer_length length
        measure(&length, layout.count, layout.counts, 0, self.blocks, self.starts)
        length.itemsize = layout.itemsize
        self.fill(&length)

    def plan_tables(self):
        """Copies of the tables of a plan that the length fills in, by name."""
        cdef int64_t messages_end = self.tables.messages_end
        found = {
            "pieces": copy_of(self.pieces, self.pieces_end, PIECE),
            "copies": copy_of(self.copies, self.copies_end, PIECE),
            "divisions": copy_of(self.divisions, self.divisions_end, PIECE),
        }
        if self.pieces_end == self.all_pieces:
            return found
        return {
            **found,
            "steps": copy_of(self.steps, self.steps_end, STEP),
            "messages": copy_of(self.messages, messages_end, MESSAGE),
            "direct": copy_of(self.reduced.direct, messages_end),
            "forwards": copy_of(self.reduced.forwards, messages_end),
            "hazards": copy_of(self.reduced.hazards, self.hazards_end),
            "numbers": copy_of(self.reduced.numbers, self.channels_end),
        }

    cdef int64_t fill_pieces(
        self, const template_row *rows, int64_t count, piece_row *filled,
        int64_t *before
    ) noexcept nogil:
        """Fill in pieces, and return their number.

        ``before`` takes the number of pieces that are kept before each.
        """
        cdef int64_t i, n = 0
        for i in range(count):
            if before != NULL:
                before[i] = n
            n += fill_piece(self, &rows[i], &filled[n])
        if before != NULL:
            before[count] = n
        return n

    cdef void drop_empty(self) noexcept nogil:
        """Write the steps and messages that have bytes, or are tokens."""
        cdef step_row *steps = <step_row *>self.reduced.steps
        cdef const step_row *step
        cdef int64_t i, m, first, n = 0
        self.number_messages()
        self.reduced.messages_end = self.hazards_end = 0
        memset(self.earlier, 0, 2 * self.lanes * sizeof(int64_t))
        for i in range(self.full.steps_end):
            step, first = &self.full.steps[i], self.reduced.messages_end
            for m in range(step.first_post, step.first_receive):
                self.add_message(m, False)
            steps[n].first_post = first
            steps[n].first_receive = self.reduced.messages_end
            for m in range(step.first_receive, step.end):
                self.add_message(m, True)
            steps[n].end = self.reduced.messages_end
            n += steps[n].end > first
        self.reduced.steps_end = n

    cdef void number_messages(self) noexcept nogil:
        """Number the messages that are kept: those with pieces."""
        cdef const message_row *message
        cdef int64_t m, n = 0
        for m in range(self.full.messages_end):
            message = &self.full.messages[m]
            self.message_numbers[m] = NONE
            if self.before[message.end_piece] > self.before[message.first_piece]:
                self.message_numbers[m] = n
                n += 1

    @cython.final
    cdef void add_message(self, int64_t m, bint received) noexcept nogil:
        """Add a message that is kept to the reduced tables."""
        cdef int64_t n = self.message_numbers[m], forward = self.full.forwards[m]
        if n == NONE:
            return
        cdef const message_row *row = &self.full.messages[m]
        cdef message_row *message = &(<message_row *>self.reduced.messages)[n]
        message[0] = row[0]
        message.first_piece = self.before[row.first_piece]
        message.end_piece = self.before[row.end_piece]
        number_on_channels(self, row, received)
        message.first_hazard = self.hazards_end
        add_hazards(self, row)
        message.end_hazard = self.hazards_end
        (<int64_t *>self.reduced.direct)[n] = self.full.direct[m]
        (<int64_t *>self.reduced.forwards)[n] = (
            NONE if forward == NONE else self.message_numbers[forward]
        )
        self.reduced.messages_end = n + 1


cdef inline void number_on_channels(
    Filling filling, const message_row *row, bint received
) noexcept nogil:
    """Number a message that is kept on each of its channels."""
    cdef int64_t *earlier = &filling.earlier[filling.lanes if received else 0]
    cdef int64_t i
    for i in range(row.first_channel, row.end_channel):
        (<int64_t *>filling.reduced.numbers)[i] = earlier[filling.channels[i]]
        earlier[filling.channels[i]] += 1


cdef inline void add_hazards(
    Filling filling, const message_row *row
) noexcept nogil:
    """Add the hazards of a message that are kept to the reduced tables."""
    cdef int64_t i, number
    for i in range(row.first_hazard, row.end_hazard):
        number = filling.message_numbers[filling.full.hazards[i]]
        if number != NONE:
            (<int64_t *>filling.reduced.hazards)[filling.hazards_end] = number
            filling.hazards_end += 1
