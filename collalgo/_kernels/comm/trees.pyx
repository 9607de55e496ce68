# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Calls on trees of arrays."""

cimport numpy as cnp

import numpy as np

from collalgo._kernels.comm.arrays cimport is_on_device
from collalgo._kernels.comm.joined cimport join, spread_rows
from collalgo._kernels.comm.reducing cimport Reducing
from collalgo._kernels.comm.tree_call cimport TreeCall, check_written, run_between

from collalgo.comm.tree import leaves_of, names_of, rebuilt, results_like
from collalgo.engine.results import result_array

cnp.import_array()


def allreduce_tree(
    Reducing runner, buf, op, out, algorithm, reproducible, timeout
):
    """An allreduce of a tree of arrays."""
    cdef TreeCall made = TreeCall(runner, "allreduce", buf, algorithm)
    made.reduces = True
    if made.is_deferred():
        args = runner, buf, op, out, algorithm, reproducible, timeout
        return made.later(allreduce_tree, args)
    result = made.write_to(buf, out)

    def call(source, target, part):
        runner.allreduce(
            source, op, None if target is source else target, part, reproducible, timeout
        )

    made.in_place(call, True, True)
    return result


def reduce_tree(
    Reducing runner, buf, op, root, out, algorithm, reproducible, timeout
):
    """A reduce of a tree of arrays."""
    cdef TreeCall made = TreeCall(runner, "reduce", buf, algorithm)
    cdef bint at_root = runner.root_of(root, "reduce") == runner.rank
    made.reduces = True
    if made.is_deferred():
        args = runner, buf, op, root, out, algorithm, reproducible, timeout
        return made.later(reduce_tree, args)
    result = made.write_to(buf, out) if at_root else None

    def call(source, target, part):
        if target is source:
            target = None
        runner.reduce(source, op, root, target, part, reproducible, timeout)

    made.in_place(call, True, at_root)
    return result


def broadcast_tree(Reducing runner, buf, root, algorithm, timeout):
    """A broadcast of a tree of arrays."""
    cdef TreeCall made = TreeCall(runner, "broadcast", buf, algorithm)
    cdef bint at_root = runner.root_of(root, "broadcast") == runner.rank
    if made.is_deferred():
        args = runner, buf, root, algorithm, timeout
        return made.later(broadcast_tree, args)
    result = buf if at_root else made.write_to(buf, None)

    def call(source, target, part):
        runner.broadcast(source if target is None else target, root, part, timeout)

    made.in_place(call, at_root, not at_root)
    return result


def allgather_tree(Reducing runner, buf, out, algorithm, timeout):
    """An allgather of a tree of arrays."""
    cdef TreeCall made = TreeCall(runner, "allgather", buf, algorithm)
    if made.is_deferred():
        args = runner, buf, out, algorithm, timeout
        return made.later(allgather_tree, args)
    results = gathered_results(made, buf, out)
    for number, places in enumerate(made.messages()):
        gather_message(made, places, made.part(places, number == 0), timeout)
    return rebuilt(buf, iter(results)) if out is None else out


cdef list gathered_results(TreeCall made, buf, out):
    """The results of an allgather, whose arrays are the targets of the call."""
    cdef list results = []
    leaves = leaves_of(buf)
    given = [None] * len(leaves) if out is None else results_like(buf, out, made.name)
    made.targets = []
    for leaf, source, each, name in zip(leaves, made.sources, given, names_of(buf)):
        shape = (made.runner.size, *(<object>source).shape)
        caller = f"{made.name}: out{name}"
        result, target = result_array(leaf, each, source, shape, caller)
        check_written(target, "out", name, made.name)
        results.append(result)
        made.targets.append(target)
    if out is not None:
        made.check_shared("out")
    return results


cdef int gather_message(TreeCall made, list places, part, timeout) except -1:
    """Gather the arrays of one message."""
    cdef cnp.ndarray flat, rows
    cdef Reducing runner = made.runner
    sources = [made.sources[place] for place in places]
    targets = [made.targets[place] for place in places]
    if len(places) == 1:
        runner.allgather(sources[0], targets[0], part, timeout)
        return 0
    flat = made.buffer_for(places)
    shape = (runner.size, flat.size)
    rows = flat.fresh(shape) if is_on_device(flat) else np.empty(shape, flat.dtype)

    def make():
        runner.allgather(flat, rows, part, timeout)

    def before():
        join(sources, flat)

    def after():
        spread_rows(rows, targets)

    return run_between(runner, make, before, after)
