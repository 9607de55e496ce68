"""The rows of :mod:`collalgo.engine.plan.rows`, as they lie in memory."""

cimport numpy as cnp
from libc.stdint cimport int64_t

# The columns, in the order of rows.py.
cdef struct step_row:
    int64_t first_post, first_receive, end

cdef struct message_row:
    int64_t first_piece, end_piece, first_channel, end_channel
    int64_t own_place, first_hazard, end_hazard

# A piece lies between borders, in runs of its source and of its target.
cdef struct template_row:
    int64_t first, last, source, source_run, target, target_run, action

cdef struct border_row:
    int64_t spare, part, block, part_of_block

cdef struct run_row:
    int64_t array, first, last

cdef enum:
    ROOMS = 32  # parts of the memory of an object

cdef struct row_tables:
    const step_row *steps
    const message_row *messages
    const int64_t *numbers
    const int64_t *hazards
    const int64_t *direct
    const int64_t *forwards
    int64_t steps_end, messages_end


cdef void *address(cnp.ndarray array) except? NULL

cdef class TemplateTables:
    cdef readonly object template
    cdef int64_t slices, parts, blocks
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
    cdef void *rooms[ROOMS]  # the memory behind the pointers of subclasses
    cdef int rooms_end

    cdef int point_at_steps(self, template) except -1
    cdef int point_at_pieces(self, template) except -1
    cdef void *room(self, int64_t numbers) except NULL
