# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""Calls that move data to one rank or from it, unchanged."""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from collalgo._kernels.calls.arrays cimport array_of, fits, length_of
from collalgo._kernels.calls.sharing cimport Sharing

from collalgo.arrays import (
    as_array,
    check_counts,
    check_output,
    check_overlap,
    check_writeable,
    result_array,
    row_size,
)

cnp.import_array()


cdef class Rooted(Sharing):
    """The calls of a communicator that gather arrays at a root or scatter one."""

    def gather(self, buf, root=0, *, out=None, algorithm=None, timeout=None):
        """Stack the arrays of all ranks at the root; see the function."""
        cdef cnp.ndarray source = array_of(buf, "gather"), target = None
        result = None
        if self.rank == root:
            if fits(out, source, self.size, 0):
                result = target = out
            else:
                shape = (self.size, *(<object>source).shape)
                result, target = result_array(out, source, shape, "gather")
                if out is not None:
                    twins = (source, target[root, ...])
                    check_overlap(source, target, twins, "gather")
        self.call("gather", source, target, timeout, algorithm, source, None, root)
        return result

    def gatherv(
        self, buf, counts=None, root=0, *, out=None, algorithm=None, timeout=None
    ):
        """Join the arrays of all ranks on axis 0 at the root; see the function."""
        cdef cnp.ndarray source = array_of(buf, "gatherv")
        cdef list rows = self.lengths(source, counts, "gatherv", timeout)
        result = target = None
        if self.rank == root:
            result, target = self.joined(source, rows, out, "gatherv")
        elements = tuple([count * row_size(source) for count in rows])
        self.call(
            "gather", source, target, timeout, algorithm, source, None, root, -1,
            elements, False, "gatherv",
        )
        return result

    def scatter(self, buf, root=0, *, out=None, algorithm=None, timeout=None):
        """Give every rank its part of the array of the root; see the function."""
        if self.rank != root and out is not None:
            buf = out
        cdef cnp.ndarray source = array_of(buf, "scatter")
        count = source.size
        if self.rank == root:
            if length_of(source, "scatter") != self.size:
                raise ValueError(
                    f"scatter: axis 0 of the root's array has length {len(source)} but "
                    f"there are {self.size} ranks; they must be equal"
                )
            count //= self.size
        self.call(
            "scatter", source if self.rank == root else None,
            None if self.rank == root else source, timeout, algorithm, source, None,
            root, count,
        )
        if self.rank != root:
            return buf
        if is_copied(source, root, out):
            return out
        return kept(source, source[root, ...], out, "scatter")

    def scatterv(
        self, buf, counts=None, root=0, *, out=None, algorithm=None, timeout=None
    ):
        """Give every rank some rows of the array of the root; see the function."""
        if self.rank != root and out is not None:
            buf = out
        cdef cnp.ndarray source = array_of(buf, "scatterv")
        rows = length_of(source, "scatterv")
        at_root = self.rank == root
        if counts is None:
            lengths = self.told(rows, timeout)
            total = lengths[root]
            lengths[root] = 2 * total - sum(lengths)
            counts = lengths
        counts = check_counts(counts, self.size, "scatterv")
        wanted = sum(counts) if at_root else counts[self.rank]
        if rows != wanted:
            raise ValueError(
                f"scatterv: rank {self.rank} passed {rows} rows but counts "
                f"{counts} give it {wanted}; pass the same counts on every rank"
            )
        elements = tuple([count * row_size(source) for count in counts])
        self.call(
            "scatter", source if at_root else None, None if at_root else source,
            timeout, algorithm, source, None, root, sum(elements), elements, False,
            "scatterv",
        )
        if at_root:
            start = sum(counts[:root])
            mine = source[start : start + counts[root]]
            return kept(source, mine, out, "scatterv")
        return buf


cdef bint is_copied(cnp.ndarray source, int64_t number, out):
    """Copy a row of a table to ``out``, if that is surely possible, and say so."""
    cdef cnp.ndarray target
    if cnp.PyArray_NDIM(source) < 2 or not fits(out, source, cnp.PyArray_DIM(source, 1), 2):
        return False
    target = out
    if not (cnp.PyArray_ISCARRAY(target) and cnp.PyArray_ISCARRAY_RO(source)):
        return False
    cdef int64_t nbytes = cnp.PyArray_NBYTES(target)
    cdef char *row = cnp.PyArray_BYTES(source) + number * nbytes
    with nogil:
        memcpy(cnp.PyArray_BYTES(target), row, nbytes)
    return True


cdef object kept(source, mine, out, str caller):
    """The root's own part of what it scatters: a view, or copied to ``out``."""
    if out is None:
        return mine if type(mine) is cnp.ndarray else mine.on_device()
    target = as_array(out, caller)
    check_output(target, source, mine.shape, caller)
    check_writeable(target, "out", caller)
    check_overlap(source, target, (mine, target), caller)
    target[...] = mine
    return out
