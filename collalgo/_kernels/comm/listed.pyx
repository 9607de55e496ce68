# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls with a list of arrays, one for each rank, which may have different shapes."""

cimport numpy as cnp
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from collalgo._kernels.comm.arrays cimport array_of, is_on_device
from collalgo._kernels.comm.reducing cimport Reducing
from collalgo._kernels.comm.tree_call cimport (
    check_written,
    must_be_later,
    run_between,
)

from collalgo._kernels.comm.joined import join, shared_pair, spread
from collalgo.base.units import counted
from collalgo.comm.agreed_counts import agreed_counts, all_shapes
from collalgo.engine.results import result_array

cnp.import_array()


def allgather_into(Reducing runner, buf, out, algorithm, timeout):
    """An allgather into a list of arrays, of which each rank's has its shape."""
    cdef str name = "allgather"
    cdef cnp.ndarray source = array_of(buf, name), flat
    cdef list targets = arrays_of(runner, out, "out", source, name)
    check_list(targets, name)
    check_own(targets[runner.rank], source, runner.rank)
    if must_be_later(runner, targets, name):
        args = runner, buf, out, algorithm, timeout
        return runner.submit(name, partial(allgather_into, *args)).wait()
    counts = tuple([target.size for target in targets])
    flat = buffer_like(source, counts)
    elements = counts if len(set(counts)) > 1 else None
    make = partial(move, runner, name, source, flat, timeout, algorithm, elements)
    run_between(runner, make, None, partial(spread, flat, targets))
    return out


def alltoall_list(Reducing runner, buf, out, algorithm, timeout):
    """An alltoall of a list of arrays, one for each rank."""
    cdef str name = "alltoall"
    if not len(buf):
        raise ValueError(f"{name}: buf is empty; pass an array for each rank")
    cdef cnp.ndarray like = array_of(buf[0], f"{name}: buf[0]")
    cdef list sources = arrays_of(runner, buf, "buf", like, name)
    if must_be_later(runner, sources, name):
        args = runner, buf, out, algorithm, timeout
        return runner.submit(name, partial(alltoall_list, *args)).wait()
    args = runner, buf, sources, algorithm, timeout
    if out is None:
        shapes, rest = [one.shape for one in sources], partial(alltoall_into_new, args)
        return all_shapes(runner, shapes, name, timeout, rest, is_on_device(like))
    targets = arrays_of(runner, out, "out", like, name)
    check_list(targets, name)
    sent, expected = [one.size for one in sources], [one.size for one in targets]
    rest = partial(alltoall_blocks, args, out, targets)
    return agreed_counts(
        runner, sent, expected, timeout, name, rest=rest, at_once=is_on_device(like)
    )


def alltoall_into_new(args, shapes):
    """Make an alltoall of a list of arrays into new ones, by the shapes of all."""
    runner, buf, sources, _, _ = args
    made = [
        result_array(buf[0], None, sources[0], shape, "alltoall")
        for shape in shapes.to(runner.rank)
    ]
    results, targets = [result for result, _ in made], [array for _, array in made]
    return alltoall_blocks(args, results, targets, shapes.elements)


def alltoall_blocks(args, results, targets, table):
    """Make an alltoall of a list of arrays, by the elements of all blocks."""
    cdef str name = "alltoall"
    runner, _, sources, algorithm, timeout = args
    flat = buffer_like(sources[0], [source.size for source in sources])
    found = buffer_like(sources[0], [target.size for target in targets])
    elements = tuple(table.ravel().tolist())
    make = partial(move, runner, name, flat, found, timeout, algorithm, elements)
    before, after = partial(join, sources, flat), partial(spread, found, targets)
    run_between(runner, make, before, after)
    return results


def move(
    Reducing runner, str name, cnp.ndarray source, cnp.ndarray target, timeout, algorithm,
    elements,
):
    """Make a call that moves blocks of these elements."""
    runner.call(
        name, source, target, timeout, algorithm, source, None, 0, -1, elements, False,
        name,
    )


cdef int check_own(target, source, int64_t rank) except -1:
    """Check that the array for this rank has the shape of its own."""
    if target.shape != source.shape:
        raise ValueError(
            f"allgather: out[{rank}] has shape {target.shape} but buf of this rank has "
            f"{source.shape}; they must be the same"
        )
    return 0


cdef list arrays_of(Reducing runner, given, str word, cnp.ndarray like, str name):
    """The arrays of a list, one for each rank, all of the dtype of another."""
    cdef list found = []
    cdef cnp.ndarray array
    check_length(given, runner.size, f"{name}: {word}")
    for place, one in enumerate(given):
        array = array_of(one, f"{name}: {word}[{place}]")
        if (<object>array).dtype != (<object>like).dtype:
            raise TypeError(
                f"{name}: {word}[{place}] has dtype {(<object>array).dtype} but the first "
                f"array has {(<object>like).dtype}; they must be the same"
            )
        found.append(array)
    return found


cdef int check_length(given, int64_t size, str what) except -1:
    """Check that a list has an array for each rank."""
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"{what} is of type {type(given).__name__}; pass a list of {size} arrays, "
            "one for each rank"
        )
    if len(given) != size:
        raise ValueError(
            f"{what} has {counted(len(given), 'array')}, but there are {size} ranks; "
            "pass a list of arrays, one for each rank"
        )
    return 0


cdef int check_list(list targets, str name) except -1:
    """Check that results can be written to the arrays of a list."""
    for place, target in enumerate(targets):
        check_written(target, "out", f"[{place}]", name)
    pair = shared_pair(targets, [])
    if pair is not None:
        raise ValueError(
            f"{name}: out[{pair[0]}] shares memory with out[{pair[1]}], but a result is "
            "written to both; pass arrays with memory of their own"
        )
    return 0


cdef cnp.ndarray buffer_like(cnp.ndarray like, counts):
    """A new buffer for blocks of these elements, with the dtype of an array."""
    cdef int64_t count = sum(counts)
    if is_on_device(like):
        return like.fresh((count,))
    return np.empty(count, (<object>like).dtype)
