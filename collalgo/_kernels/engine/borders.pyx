# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The offsets of the parts of a template in a buffer of some length, in bytes."""

cimport cython
from libc.stdint cimport int64_t

from collalgo._kernels.engine.buffer_length cimport NONE, buffer_length
from collalgo._kernels.engine.template_tables cimport (
    TemplateTables,
    border_row,
    run_row,
)

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


cdef int64_t share(int64_t count, int64_t part, int64_t parts) noexcept nogil:
    """``count * part // parts``, without overflow."""
    if part == 0:
        return 0
    return count // parts * part + collalgo_share(count % parts, part, parts)


cdef inline bint is_free(const buffer_length *length) noexcept nogil:
    """Whether borders between blocks may be at any element."""
    return length.each == NONE and length.starts == NULL


cdef inline int64_t elements_of_line(
    const buffer_length *length, int64_t blocks
) noexcept nogil:
    """The elements of a cache line, of which long chunks are multiples; 1 for short ones."""
    if is_free(length) and length.count * length.itemsize >= LONG_CHUNK * blocks:
        return CACHE_LINE // length.itemsize
    return 1


cdef inline int64_t place_in_block(
    const border_row *border, const buffer_length *length, int64_t parts
) noexcept nogil:
    """The first element of a border in a block of some parts, whose length is set."""
    cdef int64_t first, elements
    if length.starts == NULL:
        first, elements = border.block * length.each, length.each
    else:
        first = length.starts[border.block]
        elements = length.starts[border.block + 1] - first
    return first + share(elements, border.part_of_block, parts)


cdef class Borders(TemplateTables):
    """The borders and the runs of a template in a buffer of some length.

    Parameters
    ----------
    template
        As of :class:`TemplateTables`.

    Attributes
    ----------
    scratch_bytes : int
        The bytes of scratch.
    """

    def __init__(self, template):
        TemplateTables.__init__(self, template)
        self.border_bytes = <int64_t *>self.room(self.borders_end)
        self.origins = <int64_t *>self.room(self.runs_end)
        self.starts = <int64_t *>self.room(self.blocks + 1)

    cdef void place_parts(self, const buffer_length *length) noexcept nogil:
        """Find the offsets of the parts in a buffer of some length."""
        self.place_borders(length)
        self.place_runs()

    @cython.final
    cdef void place_borders(self, const buffer_length *length) noexcept nogil:
        """Find the first byte of each border."""
        cdef const border_row *border
        cdef int64_t i, first, line = elements_of_line(length, self.blocks)
        cdef int64_t width = self.parts // self.blocks
        cdef bint are_free = is_free(length)
        for i in range(self.borders_end):
            border = &self.borders[i]
            if not are_free:
                first = place_in_block(border, length, width)
            else:
                first = share(length.count, border.part, self.parts)
                if line > 1:
                    first = first // line * line
            first += border.spare * length.count
            self.border_bytes[i] = first * length.itemsize

    @cython.final
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
