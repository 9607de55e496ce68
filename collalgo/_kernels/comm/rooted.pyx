# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Collectives that move data to one rank or from it, unchanged."""

cimport numpy as cnp
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from functools import partial

from numpy import copyto

from collalgo._kernels.comm.arrays cimport (
    array_of,
    fast_result,
    fits,
    is_on_device,
    length_of,
    needs_result,
)
from collalgo._kernels.comm.sharing cimport Sharing

from collalgo.base.foreign import is_immutable, package_of
from collalgo.engine.arrays import (
    as_array,
    check_apart,
    check_output,
    check_overlap,
    check_writeable,
)
from collalgo.engine.counts import check_counts, elements_of
from collalgo.engine.results import in_place_of, output, result_array

cnp.import_array()


cdef class Rooted(Sharing):
    """Runs the collectives of ``collalgo/comm/functions/rooted.py``."""

    cdef object gather(self, buf, root, out, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "gather"), target = None
        cdef int64_t number = self.root_of(root, "gather")
        result = None
        if self.rank == number:
            result = target = fast_result(buf, out, source, self.size, 0)
            if target is None:
                shape = (self.size, *(<object>source).shape)
                result, target = result_array(buf, out, source, shape, "gather")
                if out is not None:
                    twins = (source, target[number, ...])
                    check_overlap(source, target, twins, "gather")
        self.move("gather", source, target, timeout, algorithm, number)
        return result

    cdef object gatherv(self, buf, counts, root, out, algorithm, timeout):
        cdef cnp.ndarray source = array_of(buf, "gatherv")
        cdef int64_t number = self.root_of(root, "gatherv")
        if counts is None:
            rest = partial(gather_rows, self, buf, number, out, algorithm, timeout)
            return self.after_lengths(source, "gatherv", timeout, rest)
        cdef list rows = self.checked_lengths(source, counts, "gatherv")
        elements = elements_of(rows, source, "gatherv")
        result = target = None
        if self.rank == number:
            result, target = self.joined(buf, source, rows, out, "gatherv")
        self.call(
            "gather", source, target, timeout, algorithm, source, None, number, -1,
            elements, False, "gatherv",
        )
        return result

    cdef object scatter(self, buf, root, out, algorithm, timeout):
        cdef int64_t number = self.root_of(root, "scatter")
        cdef bint at_root = self.rank == number
        if not at_root and out is not None:
            buf = out
        cdef cnp.ndarray source = array_of(buf, "scatter"), mine = None
        count = source.size
        if at_root:
            check_rows(source, self.size)
            count //= self.size
            if out is not None and not takes_row(out, source):
                mine = source[number, ...]
                check_kept(source, mine, out, "scatter")
        elif needs_result(buf, out, source):
            buf, source = in_place_of(buf, source, "scatter")
        self.call(
            "scatter", source if at_root else None, None if at_root else source,
            timeout, algorithm, source, None, number, count,
        )
        return self.keep_row(buf, source, mine, out) if at_root else buf

    cdef object scatterv(self, buf, counts, root, out, algorithm, timeout):
        cdef int64_t number = self.root_of(root, "scatterv")
        if self.rank != number and out is not None:
            buf = out
        cdef cnp.ndarray source = array_of(buf, "scatterv")
        if counts is None:
            rest = partial(scatter_rows, self, buf, number, out, algorithm, timeout)
            return self.after_lengths(source, "scatterv", timeout, rest)
        counts = self.scattered(length_of(source, "scatterv"), counts, number)
        return self.scatter_blocks(buf, source, counts, number, out, algorithm, timeout)

    cdef object scatter_blocks(
        self, buf, cnp.ndarray source, list counts, int64_t number, out, algorithm, timeout
    ):
        """Scatter blocks of known numbers of rows from a root."""
        cdef bint at_root = self.rank == number
        cdef int64_t start = sum(counts[:number])
        elements = elements_of(counts, source, "scatterv")
        part = slice(start, start + counts[number])
        if at_root and out is not None:
            check_kept(source, source[part], out, "scatterv")
        elif not at_root and needs_result(buf, out, source):
            buf, source = in_place_of(buf, source, "scatterv")
        self.call(
            "scatter", source if at_root else None, None if at_root else source,
            timeout, algorithm, source, None, number, sum(elements), elements, False,
            "scatterv",
        )
        return self.keep(buf, source, part, out, "scatterv") if at_root else buf

    cdef list scattered(self, rows, counts, int64_t root):
        """The rows that the root sends to each rank, checked against those of this one."""
        counts = check_counts(counts, self.size, "scatterv")
        wanted = sum(counts) if self.rank == root else counts[self.rank]
        if rows != wanted:
            raise ValueError(
                f"scatterv: rank {self.rank} passed {rows} rows but counts {counts} give it "
                f"{wanted}; pass an array of {wanted} rows, or the same counts on every rank"
            )
        return counts

    cdef object keep_row(self, buf, cnp.ndarray source, mine, out):
        """The root's own row of a table; ``mine`` unless ``out`` certainly has it."""
        if mine is None and out is not None and not self.is_preparing():
            copy_row(source, self.rank, out)
            return out
        return self.keep(buf, source, self.rank, out, "scatter")

    cdef object keep(self, buf, cnp.ndarray source, part, out, str caller):
        """The root's own part of the scattered array: a view, or copied to ``out``.

        In the background it is copied when the call runs, because earlier calls
        may change it. On a device the stream orders the copy.
        """
        if out is None and type(buf) is not cnp.ndarray and (
            package_of(buf) == "torch" or is_immutable(buf)
        ):
            return buf[part]
        mine = source[part, ...]
        if out is None:
            return mine.on_device() if is_on_device(source) else mine
        target = as_array(out, caller)
        if self.is_preparing() and type(mine) is cnp.ndarray:
            self.prepared.add(None, partial(copyto, target, mine))
        else:
            target[...] = mine
        return out


def gather_rows(Rooted runner, buf, root, out, algorithm, timeout, lengths):
    """Make a gatherv of arrays of these lengths."""
    return runner.gatherv(buf, lengths.ravel().tolist(), root, out, algorithm, timeout)


def scatter_rows(Rooted runner, buf, root, out, algorithm, timeout, lengths):
    """Make a scatterv to arrays of these lengths."""
    counts = shares_of(lengths.ravel().tolist(), root)
    return runner.scatterv(buf, counts, root, out, algorithm, timeout)


cdef list shares_of(list lengths, int64_t root):
    """The rows of each rank; the root keeps all remaining ones."""
    total, others = lengths[root], sum(lengths) - lengths[root]
    if others > total:
        raise ValueError(
            f"scatterv: the root, rank {root}, passed {total} rows but the arrays of the "
            f"other ranks have {others} rows together, and no rank passed counts; pass counts "
            "on every rank, or at the root an array with all rows"
        )
    return [*lengths[:root], total - others, *lengths[root + 1 :]]


cdef int check_rows(cnp.ndarray source, int64_t size) except -1:
    """Check that the root's array has a row for each rank."""
    if length_of(source, "scatter") != size:
        raise ValueError(
            f"scatter: axis 0 of the root's array has length {len(source)} but "
            f"there are {size} ranks; they must be equal"
        )
    return 0


cdef bint takes_row(out, cnp.ndarray source):
    """Whether ``out`` fits a row of a table, both contiguous and disjoint."""
    if cnp.PyArray_NDIM(source) < 2 or not fits(out, source, cnp.PyArray_DIM(source, 1), 2):
        return False
    return cnp.PyArray_ISCARRAY(out) and cnp.PyArray_ISCARRAY_RO(source)


cdef int copy_row(cnp.ndarray source, int64_t number, cnp.ndarray target) except -1:
    """Copy a row of a table to an array of the same size."""
    cdef int64_t nbytes = cnp.PyArray_NBYTES(target)
    cdef char *row = cnp.PyArray_BYTES(source) + number * nbytes
    with nogil:
        memcpy(cnp.PyArray_BYTES(target), row, nbytes)
    return 0


cdef int check_kept(cnp.ndarray source, mine, out, str caller) except -1:
    """Check that ``out`` fits the root's own part of the scattered array."""
    target = output(out, caller)
    check_output(target, source, mine.shape, caller)
    check_writeable(target, "out", caller)
    check_apart(target, "out", caller)
    check_overlap(source, target, (mine, target), caller)
    return 0
