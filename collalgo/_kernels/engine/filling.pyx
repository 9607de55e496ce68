# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The bytes of a plan: those of its template's parts in a buffer of some length."""

from libc.stdint cimport int64_t

import numpy as np

cdef enum:
    INPUT = 0  # arrays
    SCRATCH = 2
    CACHE_LINE = 64
    NONE = -1  # no message
    LONG_CHUNK = 4096  # from here on chunks begin at cache lines, which no two ranks share


cdef struct buffer:
    int64_t parts, blocks  # of the grid
    int64_t count, itemsize
    const int64_t *starts  # the first element of each block; NULL if the borders are free


cdef int64_t share(int64_t count, int64_t part, int64_t parts) noexcept nogil:
    """``count * part // parts``, without overflow."""
    return count // parts * part + count % parts * part // parts


cdef int64_t element(const buffer *b, int64_t part) noexcept nogil:
    """The first element of a part."""
    cdef int64_t width, block, first, line
    if part == b.parts:
        return b.count
    if b.starts != NULL:
        width = b.parts // b.blocks
        block = part // width
        first = b.starts[block]
        return first + share(b.starts[block + 1] - first, part % width, width)
    first = share(b.count, part, b.parts)
    if b.count * b.itemsize < LONG_CHUNK * b.blocks:
        return first
    line = CACHE_LINE // b.itemsize
    return first // line * line


cdef int64_t byte(const buffer *b, int64_t part) noexcept nogil:
    """The first byte of a part of the buffer or of the spare buffers behind it."""
    cdef int64_t spare = part // b.parts
    return (spare * b.count + element(b, part % b.parts)) * b.itemsize


cdef int64_t fill_rows(
    const int64_t[:, ::1] rows, const int64_t[::1] bytes_, const int64_t[::1] origins,
    int64_t[:, ::1] filled, int64_t[::1] before
) noexcept nogil:
    """Write offset, length, source, its offset, target, its offset, and action.

    Rows without bytes are left out, but for those of messages without chunks (tokens).
    ``before`` takes the number of rows that are left before each; return that of all.
    """
    cdef int64_t i, start, nbytes, n = 0
    for i in range(rows.shape[0]):
        before[i] = n
        start = bytes_[rows[i, 0]]
        nbytes = bytes_[rows[i, 1]] - start
        if nbytes == 0 and rows[i, 0] != rows[i, 1]:
            continue
        filled[n, 0], filled[n, 1] = start, nbytes
        filled[n, 2], filled[n, 3] = rows[i, 2], origins[rows[i, 3]] + start
        filled[n, 4], filled[n, 5] = rows[i, 4], origins[rows[i, 5]] + start
        filled[n, 6] = rows[i, 6]
        n += 1
    before[rows.shape[0]] = n
    return n


cdef int64_t place_runs(
    const int64_t[:, ::1] runs, const int64_t[::1] bytes_, int64_t slices,
    int64_t[::1] origins
) noexcept nogil:
    """Write the place of each run less its first byte; return the bytes of scratch."""
    cdef int64_t i, start, nbytes, array = INPUT, place = 0
    for i in range(runs.shape[0]):
        if runs[i, 0] != array:
            array, place = runs[i, 0], 0
        start = bytes_[runs[i, 1]]
        nbytes = bytes_[runs[i, 2]] - start
        origins[i] = place - start
        if array == SCRATCH and slices > 1:  # each slice uses the room of the longest
            nbytes = (nbytes + CACHE_LINE - 1) // CACHE_LINE
            nbytes = (nbytes + slices - 1) // slices * CACHE_LINE
        place += nbytes
    return place if array == SCRATCH else 0


cdef int64_t number_messages(
    const int64_t[:, ::1] messages, const int64_t[::1] before, int64_t[::1] number
) noexcept nogil:
    """Number the messages that are left: those with pieces; return how many."""
    cdef int64_t m, n = 0
    for m in range(messages.shape[0]):
        number[m] = NONE
        if before[messages[m, 1]] > before[messages[m, 0]]:
            number[m] = n
            n += 1
    return n


cdef dict without_empty(template, const int64_t[::1] before):
    """Steps, messages, numbers, hazards, direct and forwards without empty messages.

    ``before`` holds the number of pieces that are left before each.
    """
    cdef const int64_t[:, ::1] steps = template.steps, messages = template.messages
    cdef const int64_t[::1] channels = template.channels, hazards = template.hazards
    cdef const int64_t[::1] direct = template.direct, forwards = template.forwards
    cdef int64_t[::1] number = np.empty(messages.shape[0], np.int64)
    cdef int64_t kept = number_messages(messages, before, number)
    cdef int64_t[:, ::1] steps_ = np.empty_like(template.steps)
    cdef int64_t[:, ::1] messages_ = np.empty((kept, 7), np.int64)
    cdef int64_t[::1] numbers_ = np.zeros_like(template.numbers)
    cdef int64_t[::1] hazards_ = np.empty_like(template.hazards)
    cdef int64_t[::1] direct_ = np.empty(kept, np.int64)
    cdef int64_t[::1] forwards_ = np.empty(kept, np.int64)
    cdef int64_t step, m, i, n = 0, step_count = 0, hazard = 0
    cdef int64_t end = np.max(template.channels, initial=-1) + 1
    cdef int64_t[:, ::1] earlier = np.zeros((2, end), np.int64)  # sent and received
    cdef bint received
    for step in range(steps.shape[0]):
        steps_[step_count, 0] = steps_[step_count, 1] = n
        for m in range(steps[step, 0], steps[step, 2]):
            if number[m] == NONE:
                continue
            received = m >= steps[step, 1]
            messages_[n] = messages[m]
            messages_[n, 0] = before[messages[m, 0]]
            messages_[n, 1] = before[messages[m, 1]]
            for i in range(messages[m, 2], messages[m, 3]):
                numbers_[i] = earlier[received, channels[i]]
                earlier[received, channels[i]] += 1
            messages_[n, 5] = hazard
            for i in range(messages[m, 5], messages[m, 6]):
                if number[hazards[i]] != NONE:
                    hazards_[hazard] = number[hazards[i]]
                    hazard += 1
            messages_[n, 6] = hazard
            direct_[n] = direct[m]
            forwards_[n] = NONE if forwards[m] == NONE else number[forwards[m]]
            n += 1
            if not received:
                steps_[step_count, 1] = n
        steps_[step_count, 2] = n
        step_count += n > steps_[step_count, 0]
    return {
        "steps": np.asarray(steps_)[:step_count],
        "messages": np.asarray(messages_),
        "numbers": np.asarray(numbers_),
        "hazards": np.asarray(hazards_)[:hazard],
        "direct": np.asarray(direct_),
        "forwards": np.asarray(forwards_),
    }


cdef class Filling:
    """The bytes of a template's parts in a buffer of some length.

    Parameters
    ----------
    template : collalgo.engine.plan.rows.PlanTemplate
        The rows in parts of the buffer.
    layout : collalgo.engine.plan.layout.Layout
        The elements of the buffer.

    Attributes
    ----------
    scratch_bytes : int
        The bytes of scratch.
    """

    cdef object template, bytes_, origins, pieces, copies, divisions
    cdef object before  # the pieces that are left before each of the template
    cdef readonly int64_t scratch_bytes

    def __init__(self, template, layout):
        self.template = template
        self.bytes_ = self.bytes_of(template.borders, layout)
        self.origins = np.empty(len(template.runs), np.int64)
        self.scratch_bytes = place_runs(
            template.runs, self.bytes_, template.slices, self.origins
        )
        self.copies = self.filled(template.copies)
        self.divisions = self.filled(template.divisions)
        self.pieces = self.filled(template.pieces)

    cdef bytes_of(self, const int64_t[::1] borders, layout):
        cdef buffer b
        cdef const int64_t[::1] starts
        cdef int64_t i
        b.parts, b.blocks = self.template.grid.parts, self.template.grid.blocks
        b.count, b.itemsize, b.starts = layout.count, layout.itemsize, NULL
        if layout.counts is not None:
            starts = np.array(layout.starts, np.int64)
            b.starts = &starts[0]
        found = np.empty(borders.shape[0], np.int64)
        cdef int64_t[::1] of_border = found
        for i in range(borders.shape[0]):
            of_border[i] = byte(&b, borders[i])
        return found

    cdef filled(self, rows):
        found = np.empty_like(rows)
        self.before = np.empty(len(rows) + 1, np.int64)
        cdef int64_t n = fill_rows(rows, self.bytes_, self.origins, found, self.before)
        return found[:n]

    def tables(self):
        """The tables that differ from those of the template, without empty messages."""
        cdef dict found = {
            "pieces": self.pieces, "copies": self.copies, "divisions": self.divisions,
        }
        if len(self.pieces) < len(self.template.pieces):
            found.update(without_empty(self.template, self.before))
        return found
