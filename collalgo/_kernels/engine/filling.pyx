# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The bytes of a plan: those of its template's parts in a buffer of some length.

A template is filled in again and again, in the same memory and in time proportional to
its rows, without Python objects. See :mod:`collalgo.engine.plan.rows`.
"""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import numpy as np

from collalgo._kernels.engine.buffer_length cimport NONE, buffer_length, measure

cnp.import_array()

cdef extern from *:
    """
    /* a * b / c for 0 <= a, b <= c. */
    static inline int64_t collalgo_share(int64_t a, int64_t b, int64_t c)
    {
        return c < (1LL << 31) ? a * b / c : (int64_t)((__int128)a * b / c);
    }
    """
    int64_t collalgo_share(int64_t a, int64_t b, int64_t c) noexcept nogil

cdef enum:
    CACHE_LINE = 64
    LONG_CHUNK = 4096  # from here on chunks begin at cache lines, which no two ranks share


cdef void *address(cnp.ndarray array) except? NULL:
    if cnp.PyArray_TYPE(array) != cnp.NPY_INT64 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError("the arrays of a plan are contiguous and of int64")
    return cnp.PyArray_DATA(array)


cdef object copy_of(const void *table, int64_t rows, int64_t columns=0):
    """A copy of a table as an array, of one dimension without columns."""
    cdef cnp.ndarray found = np.empty(rows * max(columns, 1), np.int64)
    memcpy(cnp.PyArray_DATA(found), table, cnp.PyArray_NBYTES(found))
    return found.reshape(rows, columns) if columns else found


cdef int64_t share(int64_t count, int64_t part, int64_t parts) noexcept nogil:
    """``count * part // parts``, without overflow."""
    if part == 0:
        return 0
    return count // parts * part + collalgo_share(count % parts, part, parts)


cdef class Filling:
    """The rows of a template, with the bytes of a buffer of some length.

    Parameters
    ----------
    template : collalgo.engine.plan.rows.PlanTemplate
        The rows in parts of the buffer.

    Attributes
    ----------
    scratch_bytes : int
        The bytes of scratch.
    """

    def __init__(self, template):
        self.template, self.slices = template, template.slices
        self.parts, self.blocks = template.grid.parts, template.grid.blocks
        self.point_at_template(template)
        self.allocate()

    def __dealloc__(self):
        cdef int i
        for i in range(self.rooms_end):
            free(self.rooms[i])

    cdef int point_at_template(self, template) except -1:
        """Set the pointers to what does not depend on the length."""
        self.full.steps = <const step_row *>address(template.steps)
        self.full.messages = <const message_row *>address(template.messages)
        self.full.numbers = <const int64_t *>address(template.numbers)
        self.full.hazards = <const int64_t *>address(template.hazards)
        self.full.direct = <const int64_t *>address(template.direct)
        self.full.forwards = <const int64_t *>address(template.forwards)
        self.full.steps_end = len(template.steps)
        self.full.messages_end = len(template.messages)
        self.channels = <const int64_t *>address(template.channels)
        self.borders = <const border_row *>address(template.borders)
        self.runs = <const run_row *>address(template.runs)
        self.piece_template = <const template_row *>address(template.pieces)
        self.copy_template = <const template_row *>address(template.copies)
        self.division_template = <const template_row *>address(template.divisions)
        self.borders_end, self.runs_end = len(template.borders), len(template.runs)
        self.all_pieces, self.all_copies = len(template.pieces), len(template.copies)
        self.all_divisions = len(template.divisions)
        self.channels_end, self.all_hazards = len(template.channels), len(template.hazards)
        return 0

    cdef int allocate(self) except -1:
        """Make the memory that each length fills."""
        cdef int64_t i
        for i in range(self.channels_end):
            self.lanes = max(self.lanes, self.channels[i] + 1)
        self.pieces = <piece_row *>self.room(PIECE * self.all_pieces)
        self.copies = <piece_row *>self.room(PIECE * self.all_copies)
        self.divisions = <piece_row *>self.room(PIECE * self.all_divisions)
        self.border_bytes = <int64_t *>self.room(self.borders_end)
        self.origins = <int64_t *>self.room(self.runs_end)
        self.before = <int64_t *>self.room(self.all_pieces + 1)
        self.message_numbers = <int64_t *>self.room(self.full.messages_end)
        self.earlier = <int64_t *>self.room(2 * self.lanes)
        self.starts = <int64_t *>self.room(self.blocks + 1)
        self.reduced.steps = <const step_row *>self.room(STEP * self.full.steps_end)
        self.reduced.messages = <const message_row *>self.room(
            MESSAGE * self.full.messages_end
        )
        self.reduced.numbers = <const int64_t *>self.room(self.channels_end)
        self.reduced.hazards = <const int64_t *>self.room(self.all_hazards)
        self.reduced.direct = <const int64_t *>self.room(self.full.messages_end)
        self.reduced.forwards = <const int64_t *>self.room(self.full.messages_end)
        return 0

    cdef void *room(self, int64_t numbers) except NULL:
        """Memory for some numbers, all 0."""
        cdef void *found = calloc(max(numbers, 1), sizeof(int64_t))
        if found == NULL:
            raise MemoryError
        self.rooms[self.rooms_end] = found
        self.rooms_end += 1
        return found

    cdef int fill(self, const buffer_length *length) except -1:
        """Fill in the bytes of a buffer of some length."""
        self.place_borders(length)
        self.place_runs()
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
            self.leave_out_empty()
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

    cdef void place_borders(self, const buffer_length *length) noexcept nogil:
        """Find the first byte of each border."""
        cdef const border_row *border
        cdef int64_t i, elements, first, line = 1
        cdef int64_t width = self.parts // self.blocks
        cdef bint is_free = length.each == NONE and length.starts == NULL
        if is_free and length.count * length.itemsize >= LONG_CHUNK * self.blocks:
            line = CACHE_LINE // length.itemsize
        for i in range(self.borders_end):
            border = &self.borders[i]
            if is_free:
                first = share(length.count, border.part, self.parts)
                if line > 1:
                    first = first // line * line
            elif length.starts == NULL:
                first = border.block * length.each
                first += share(length.each, border.part_of_block, width)
            else:
                first = length.starts[border.block]
                elements = length.starts[border.block + 1] - first
                first += share(elements, border.part_of_block, width)
            first += border.spare * length.count
            self.border_bytes[i] = first * length.itemsize

    cdef void place_runs(self) noexcept nogil:
        """Find the place of each run less its first byte, and the bytes of scratch."""
        cdef const run_row *run
        cdef int64_t i, start, nbytes, array = INPUT, place = 0
        for i in range(self.runs_end):
            run = &self.runs[i]
            if run.array != array:
                array, place = run.array, 0
            start = self.border_bytes[run.first]
            nbytes = self.border_bytes[run.last] - start
            self.origins[i] = place - start
            if array == SCRATCH and self.slices > 1:  # of the longest slice
                nbytes = (nbytes + CACHE_LINE - 1) // CACHE_LINE
                nbytes = (nbytes + self.slices - 1) // self.slices * CACHE_LINE
            place += nbytes
        self.scratch_bytes = place if array == SCRATCH else 0

    cdef int64_t fill_pieces(
        self, const template_row *rows, int64_t count, piece_row *filled,
        int64_t *before
    ) noexcept nogil:
        """Fill in pieces, and return their number.

        Those without bytes are left out, but for those of messages without chunks
        (tokens). ``before`` takes the number of pieces that are left before each.
        """
        cdef const template_row *row
        cdef piece_row *piece
        cdef int64_t i, start, nbytes, n = 0
        for i in range(count):
            row = &rows[i]
            if before != NULL:
                before[i] = n
            start = self.border_bytes[row.first]
            nbytes = self.border_bytes[row.last] - start
            if nbytes == 0 and row.first != row.last:
                continue
            piece = &filled[n]
            piece.offset, piece.nbytes = start, nbytes
            piece.source, piece.target = row.source, row.target
            piece.source_offset = self.origins[row.source_run] + start
            piece.target_offset = self.origins[row.target_run] + start
            piece.action = row.action
            n += 1
        if before != NULL:
            before[count] = n
        return n

    cdef void leave_out_empty(self) noexcept nogil:
        """Write the steps and messages that have bytes, or are tokens."""
        cdef step_row *steps = <step_row *>self.reduced.steps
        cdef const step_row *step
        cdef int64_t i, m, first, hazards_end = 0, n = 0
        self.number_messages()
        self.reduced.messages_end = 0
        memset(self.earlier, 0, 2 * self.lanes * sizeof(int64_t))
        for i in range(self.full.steps_end):
            step, first = &self.full.steps[i], self.reduced.messages_end
            for m in range(step.first_post, step.first_receive):
                self.add_message(m, False, &hazards_end)
            steps[n].first_post = first
            steps[n].first_receive = self.reduced.messages_end
            for m in range(step.first_receive, step.end):
                self.add_message(m, True, &hazards_end)
            steps[n].end = self.reduced.messages_end
            n += steps[n].end > first
        self.reduced.steps_end, self.hazards_end = n, hazards_end

    cdef void number_messages(self) noexcept nogil:
        """Number the messages that are left: those with pieces."""
        cdef const message_row *message
        cdef int64_t m, n = 0
        for m in range(self.full.messages_end):
            message = &self.full.messages[m]
            self.message_numbers[m] = NONE
            if self.before[message.end_piece] > self.before[message.first_piece]:
                self.message_numbers[m] = n
                n += 1

    cdef void add_message(
        self, int64_t m, bint received, int64_t *hazards_end
    ) noexcept nogil:
        """Add a message that is left to the reduced tables."""
        cdef int64_t n = self.message_numbers[m], i, forward = self.full.forwards[m]
        if n == NONE:
            return
        cdef const message_row *row = &self.full.messages[m]
        cdef message_row *message = &(<message_row *>self.reduced.messages)[n]
        cdef int64_t *earlier = &self.earlier[self.lanes if received else 0]
        message[0] = row[0]
        message.first_piece = self.before[row.first_piece]
        message.end_piece = self.before[row.end_piece]
        for i in range(row.first_channel, row.end_channel):
            (<int64_t *>self.reduced.numbers)[i] = earlier[self.channels[i]]
            earlier[self.channels[i]] += 1
        message.first_hazard = hazards_end[0]
        for i in range(row.first_hazard, row.end_hazard):
            if self.message_numbers[self.full.hazards[i]] != NONE:
                (<int64_t *>self.reduced.hazards)[hazards_end[0]] = (
                    self.message_numbers[self.full.hazards[i]]
                )
                hazards_end[0] += 1
        message.end_hazard = hazards_end[0]
        (<int64_t *>self.reduced.direct)[n] = self.full.direct[m]
        (<int64_t *>self.reduced.forwards)[n] = (
            NONE if forward == NONE else self.message_numbers[forward]
        )
        self.reduced.messages_end = n + 1
