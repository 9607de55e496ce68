"""The rows of :mod:`collalgo.engine.plan.rows`, as they lie in memory."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport buffer_length

# The columns, in the order of rows.py. `offset` of a piece is an offset in the whole
# buffer; those of its source and target are offsets in their arrays.
cdef struct step_row:
    int64_t first_post, first_receive, end

cdef struct message_row:
    int64_t first_piece, end_piece, first_channel, end_channel
    int64_t own_place, first_hazard, end_hazard

cdef struct piece_row:
    int64_t offset, nbytes, source, source_offset, target, target_offset, action

# In a template a piece lies between borders, in runs of its source and of its target.
cdef struct template_row:
    int64_t first, last, source, source_run, target, target_run, action

cdef struct border_row:
    int64_t spare, part, block, part_of_block

cdef struct run_row:
    int64_t array, first, last

cdef enum:
    INPUT = 0  # arrays
    SCRATCH = 2  # reused by each slice
    STEP = 3  # columns
    MESSAGE = 7
    PIECE = 7
    ROOMS = 32  # parts of the memory of a filling

cdef struct row_tables:
    const step_row *steps
    const message_row *messages
    const int64_t *numbers
    const int64_t *hazards
    const int64_t *direct
    const int64_t *forwards
    int64_t steps_end, messages_end


cdef void *address(cnp.ndarray array) except? NULL

cdef class Filling:
    cdef readonly object template
    cdef readonly int64_t scratch_bytes
    cdef int64_t slices, parts, blocks
    cdef void *rooms[ROOMS]  # the memory behind the pointers
    cdef int rooms_end
    # What does not depend on the length:
    cdef row_tables full
    cdef const border_row *borders
    cdef const run_row *runs
    cdef const template_row *piece_template
    cdef const template_row *copy_template
    cdef const template_row *division_template
    cdef int64_t borders_end, runs_end
    cdef int64_t all_pieces, all_copies, all_divisions, all_hazards, channels_end
    cdef int64_t lanes  # channels by number, of which some are not used
    cdef const int64_t *channels
    # What each length fills in:
    cdef int64_t *border_bytes
    cdef int64_t *origins  # of each run
    cdef int64_t *before  # the pieces that are left before each of the template
    cdef int64_t *message_numbers  # the new number of each message, or NONE
    cdef int64_t *earlier  # messages sent on each channel, then messages received
    cdef int64_t *starts  # room for those of the length
    cdef piece_row *pieces
    cdef piece_row *copies
    cdef piece_row *divisions
    cdef row_tables reduced  # without empty messages
    cdef row_tables tables  # those of both that hold for this length
    cdef int64_t pieces_end, copies_end, divisions_end, steps_end, hazards_end
    cdef const step_row *steps  # of these tables
    cdef const message_row *messages

    cdef int point_at_template(self, template) except -1
    cdef int allocate(self) except -1
    cdef void *room(self, int64_t numbers) except NULL
    cdef int fill(self, const buffer_length *length) except -1
    cdef void place_borders(self, const buffer_length *length) noexcept nogil
    cdef void place_runs(self) noexcept nogil
    cdef int64_t fill_pieces(
        self, const template_row *rows, int64_t count, piece_row *filled,
        int64_t *before
    ) noexcept nogil
    cdef void leave_out_empty(self) noexcept nogil
    cdef void number_messages(self) noexcept nogil
    cdef void add_message(
        self, int64_t m, bint received, int64_t *hazards_end
    ) noexcept nogil
