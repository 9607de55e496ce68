# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a call on a tree of arrays; see :mod:`collalgo.comm.tree`.

Small arrays lie one after the other in one buffer, so that one message carries them; for
a reduction those of one dtype. Long arrays have a call each, without a copy.
"""

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport array_of, is_on_device, output_array
from collalgo._kernels.comm.call_runner cimport CallRunner
from collalgo._kernels.comm.reducing cimport Reducing

from collalgo._kernels.comm.joined import join, shared_pair, spread
from collalgo._kernels.engine.transport.transport import PART_OF_LAST, WHOLE_CALL
from collalgo.base.cache import recalled
from collalgo.comm.tree import keys_of, leaves_of, mixed_in_words, names_of
from collalgo.comm.tree import results_in_place, results_like
from collalgo.engine.arrays import check_apart, check_writeable
from collalgo.engine.call import Part
from collalgo.engine.dtypes import dtype_description

cnp.import_array()

cdef enum:
    LONG = 1 << 16  # bytes from which on an array has a call of its own

cdef dict descriptions = {}  # of dtypes
cdef dict texts = {}  # of the counts of arrays, by their bytes


cdef class TreeCall:
    """The arrays of a call on a tree, in messages.

    Attributes
    ----------
    sources, targets : list of array
        The arrays that are read, and those that are written.
    """

    def __init__(self, Reducing runner, str name, buf, algorithm):
        self.runner, self.name, self.algorithm = runner, name, algorithm
        self.buf, self.targets = buf, []
        self.is_plain = are_plain(buf)
        if self.is_plain:
            self.sources = list(buf)
            return
        self.keys = keys_of(buf)
        self.sources = [
            leaf if type(leaf) is cnp.ndarray
            else array_of(leaf, f"{name}: buf{self.place_of(number)}")
            for number, leaf in enumerate(leaves_of(buf))
        ]

    cdef str place_of(self, int64_t number):
        """The place of an array in the tree."""
        if self.names is None:
            self.names = names_of(self.buf)
        return self.names[number]

    cdef object write_to(self, buf, out):
        """Write to ``out``, by default in place, and return the tree of the results."""
        cdef int64_t place
        result, self.targets = buf, self.sources
        if out is not None:
            result, given = out, results_like(buf, out, self.name)
            self.targets = [
                output_array(
                    given[place], self.sources[place],
                    f"{self.name}: out{self.place_of(place)}",
                )
                for place in range(len(given))
            ]
        elif not self.is_plain:
            result, self.targets = results_in_place(buf, self.sources, self.name)
        self.check_targets("buf" if out is None else "out")
        return result

    cdef int check_targets(self, str word) except -1:
        """Check that the results can be written."""
        cdef int64_t place
        for place in range(len(self.targets)):
            if not is_free(self.targets[place]):
                check_written(
                    self.targets[place], word, self.place_of(place), self.name
                )
        return self.check_shared(word)

    cdef int check_shared(self, str word) except -1:
        """Check that no array is written that another one shares memory with."""
        if len(self.targets) < 2:
            return 0
        others = [] if self.targets is self.sources else self.sources
        pair = shared_pair(self.targets, others)
        if pair is not None:
            written, other = self.place_of(pair[0]), self.place_of(pair[1])
            raise ValueError(
                f"{self.name}: {word}{written} shares memory with the array at {other}, "
                "but the result is written to it; pass each array once"
            )
        return 0

    cdef list messages(self):
        """The places of the arrays of each message, the same on all ranks."""
        cdef list found = [], latest = None
        cdef dict joined = {}
        cdef cnp.ndarray array, last = None
        for place, array in enumerate(self.sources):
            if cnp.PyArray_NBYTES(array) >= LONG:
                found.append([place])
                continue
            if last is not None and are_of_a_kind(array, last):
                latest.append(place)
                continue
            kind = (<object>array).dtype if self.reduces or is_on_device(array) else None
            if is_on_device(array):
                kind = kind, array.runtime
            if kind not in joined:
                joined[kind] = []
                found.append(joined[kind])
            latest, last = joined[kind], array
            latest.append(place)
        self.is_mixed = self.reduces and len(joined) > 1
        return found or [[]]

    cdef object part(self, list places, bint is_first):
        """The call of a message as a part of that of the user."""
        counted = WHOLE_CALL if is_first else PART_OF_LAST
        if is_first and self.is_mixed:
            return Part(self.algorithm, self.text_of_all(places[0]), counted)
        return Part(self.algorithm, self.text_of(places), counted)

    cdef str text_of(self, list places):
        """The arrays of a message in words, which the ranks compare."""
        cdef cnp.ndarray array
        if self.reduces and self.keys is None:
            return recalled(texts, self.counts_of(places), counts_in_words)
        counts = []
        for place in places:
            array = self.sources[place]
            count = str(cnp.PyArray_SIZE(array))
            if not self.reduces:
                dtype = (<object>array).dtype
                count += " " + recalled(descriptions, dtype, dtype_description)
            counts.append(count if self.keys is None else f"{count} {self.keys[place]}")
        return "+".join(counts)

    cdef str text_of_all(self, int64_t first):
        """The arrays of all messages in words, so that ranks differ in the first one.

        Those of another dtype than that of the first message have their dtype.
        """
        dtypes = tuple([array.dtype for array in self.sources])
        counts = self.counts_of(list(range(len(dtypes))))
        keys = None if self.keys is None else tuple(self.keys)
        return recalled(texts, (counts, dtypes, dtypes[first], keys), mixed_in_words)

    cdef bytes counts_of(self, list places):
        """The numbers of elements of arrays, each in eight bytes."""
        cdef bytes found = PyBytes_FromStringAndSize(NULL, 8 * len(places))
        cdef int64_t *numbers = <int64_t *>PyBytes_AS_STRING(found)
        cdef int64_t number = 0
        cdef cnp.ndarray array
        for place in places:
            array = self.sources[place]
            numbers[number] = cnp.PyArray_SIZE(array)
            number += 1
        return found

    cdef cnp.ndarray buffer_for(self, list places):
        """A buffer for the arrays of a message."""
        cdef cnp.ndarray array
        cdef int64_t nbytes = 0
        if not places:
            return np.empty(0, np.uint8)
        for place in places:
            array = self.sources[place]
            nbytes += cnp.PyArray_NBYTES(array)
        if is_on_device(array):
            return array.fresh((nbytes // array.itemsize,))
        dtype = (<object>array).dtype if self.reduces else np.dtype(np.uint8)
        return np.empty(nbytes // dtype.itemsize, dtype)

    cdef int in_place(self, call, bint reads, bint writes) except -1:
        """Make the calls of all messages: ``call(source, target, part)``.

        Parameters
        ----------
        reads, writes
            Whether this rank has input, and output.
        """
        cdef cnp.ndarray flat
        cdef list places, sources, targets
        for number, places in enumerate(self.messages()):
            part = self.part(places, number == 0)
            sources = chosen(self.sources, places)
            targets = chosen(self.targets, places) if writes else []
            if len(places) == 1:
                call(sources[0], targets[0] if writes else None, part)
                continue
            flat = self.buffer_for(places)
            make = partial(call, flat, flat if writes else None, part)
            run_between(
                self.runner, make, partial(join, sources, flat) if reads else None,
                partial(spread, flat, targets) if writes else None,
            )
        return 0

    cdef bint is_deferred(self) except -1:
        """Whether the call must be made after those in the background."""
        arrays = [] if self.is_plain else self.sources
        return must_be_later(self.runner, arrays, self.name)

    cdef object later(self, function, tuple args):
        """Make the call after those in the background."""
        return self.runner.submit(self.name, partial(function, *args)).wait()


cdef bint are_plain(buf):
    """Whether these are arrays of the host in one list: a fast check."""
    if type(buf) is not list and type(buf) is not tuple:
        return False
    for leaf in buf:
        if type(leaf) is not cnp.ndarray:
            return False
    return True


cdef list chosen(list arrays, list places):
    """The arrays at some places, in ascending order."""
    if len(places) == len(arrays):
        return arrays
    return [arrays[place] for place in places]


def counts_in_words(bytes counts):
    """The numbers of elements of arrays, as the ranks compare them."""
    return "+".join(map(str, np.frombuffer(counts, np.int64).tolist()))


cdef inline bint are_of_a_kind(cnp.ndarray array, cnp.ndarray other):
    """Whether two arrays of the host have the same dtype."""
    return (
        type(array) is cnp.ndarray and type(other) is cnp.ndarray
        and cnp.PyArray_DESCR(array) is cnp.PyArray_DESCR(other)
    )


cdef int run_between(CallRunner runner, make, before, after) except -1:
    """Make a call between two functions, each in its turn; either may be None."""
    if runner.is_preparing():
        make()
        runner.prepared.add(before, after)
        return 0
    if before is not None:
        before()
    make()
    if after is not None:
        after()
    return 0


cdef bint must_be_later(CallRunner runner, list arrays, str name) except -1:
    """Whether calls in the background may still access the arrays of this one.

    Raises
    ------
    TypeError
        If this call is one in the background, and arrays are on a device.
    """
    cdef cnp.ndarray array
    cdef bint on_device = any([is_on_device(array) for array in arrays])
    if on_device and runner.is_preparing():
        raise TypeError(
            f"{name}_async: several arrays on devices are joined in the foreground "
            "only; use comm.bucket()"
        )
    if on_device or runner.is_preparing() or runner.is_continuing():
        return False
    return runner.progress.used


cdef inline bint is_free(cnp.ndarray array):
    """Whether an array certainly can be written."""
    return cnp.PyArray_ISWRITEABLE(array) and cnp.PyArray_IS_C_CONTIGUOUS(array)


cdef int check_written(cnp.ndarray array, str word, str name, str caller) except -1:
    """Check that a result can be written to an array."""
    if not is_free(array):
        check_writeable(array, word + name, caller)
        check_apart(array, word + name, caller)
    return 0
