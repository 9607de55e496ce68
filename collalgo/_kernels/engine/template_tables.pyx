# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rows of a template as tables in memory, which do not depend on the length."""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

cnp.import_array()


cdef void *address(cnp.ndarray array) except? NULL:
    if cnp.PyArray_TYPE(array) != cnp.NPY_INT64 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        raise TypeError("the arrays of a plan are contiguous and of int64")
    return cnp.PyArray_DATA(array)


cdef class TemplateTables:
    """The rows of a template, and memory for derived tables.

    Parameters
    ----------
    template : collalgo.engine.plan.rows.PlanTemplate
        The rows in parts of the buffer.
    """

    def __init__(self, template):
        self.template, self.slices = template, template.slices
        self.parts, self.blocks = template.grid.parts, template.grid.blocks
        self.point_at_steps(template)
        self.point_at_pieces(template)

    def __dealloc__(self):
        cdef int i
        for i in range(self.rooms_end):
            free(self.rooms[i])

    cdef int point_at_steps(self, template) except -1:
        """Set the pointers to the steps and their messages."""
        cdef int64_t i
        self.full.steps = <const step_row *>address(template.steps)
        self.full.messages = <const message_row *>address(template.messages)
        self.full.numbers = <const int64_t *>address(template.numbers)
        self.full.hazards = <const int64_t *>address(template.hazards)
        self.full.direct = <const int64_t *>address(template.direct)
        self.full.forwards = <const int64_t *>address(template.forwards)
        self.full.steps_end = len(template.steps)
        self.full.messages_end = len(template.messages)
        self.channels = <const int64_t *>address(template.channels)
        self.channels_end, self.all_hazards = len(template.channels), len(template.hazards)
        for i in range(self.channels_end):
            self.lanes = max(self.lanes, self.channels[i] + 1)
        return 0

    cdef int point_at_pieces(self, template) except -1:
        """Set the pointers to the pieces and their offsets."""
        self.borders = <const border_row *>address(template.borders)
        self.runs = <const run_row *>address(template.runs)
        self.piece_template = <const template_row *>address(template.pieces)
        self.copy_template = <const template_row *>address(template.copies)
        self.division_template = <const template_row *>address(template.divisions)
        self.borders_end, self.runs_end = len(template.borders), len(template.runs)
        self.all_pieces, self.all_copies = len(template.pieces), len(template.copies)
        self.all_divisions = len(template.divisions)
        return 0

    cdef void *room(self, int64_t numbers) except NULL:
        """Memory for some numbers, all 0."""
        cdef void *found = calloc(max(numbers, 1), sizeof(int64_t))
        if found == NULL:
            raise MemoryError
        self.rooms[self.rooms_end] = found
        self.rooms_end += 1
        return found
