"""The tables of a plan: those of a template, filled in for a length."""

from libc.stdint cimport int64_t

from collalgo._kernels.engine.borders cimport Borders
from collalgo._kernels.engine.buffer_length cimport buffer_length
from collalgo._kernels.engine.template_tables cimport (
    message_row,
    row_tables,
    step_row,
    template_row,
)

# `offset` is an offset in the whole buffer; those of the source and the target are
# offsets in their arrays.
cdef struct piece_row:
    int64_t offset, nbytes, source, source_offset, target, target_offset, action

cdef enum:
    STEP = 3  # columns
    MESSAGE = 7
    PIECE = 7


cdef class Filling(Borders):
    cdef int64_t *before  # the pieces that are left before each of the template
    cdef int64_t *message_numbers  # the new number of each message, or NONE
    cdef int64_t *earlier  # messages sent on each channel, then messages received
    cdef piece_row *pieces
    cdef piece_row *copies
    cdef piece_row *divisions
    cdef row_tables reduced  # without empty messages
    cdef row_tables tables  # those of both that hold for this length
    cdef int64_t pieces_end, copies_end, divisions_end, steps_end, hazards_end
    cdef const step_row *steps  # of these tables
    cdef const message_row *messages

    cdef int allocate(self) except -1
    cdef int allocate_reduced(self) except -1
    cdef int fill(self, const buffer_length *length) except -1
    cdef int64_t fill_pieces(
        self, const template_row *rows, int64_t count, piece_row *filled,
        int64_t *before
    ) noexcept nogil
    cdef void drop_empty(self) noexcept nogil
    cdef void number_messages(self) noexcept nogil
    cdef void add_message(self, int64_t m, bint received) noexcept nogil
