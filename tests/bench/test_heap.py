"""The same calls are timed on shared arrays and on others."""

from functools import partial

import numpy as np
from collalgo.bench import heap

from collalgo import threads

PARTS = (heap.CALL, heap.WHOLE)


def test_a_program_writes_before_a_call_and_reads_after_it():
    done = []
    use = heap.Use(*(partial(done.append, what) for what in ("write", "call", "read")))
    use.whole()
    use.between()
    assert done == ["write", "call", "read", "read", "write"]


def arrays_made_by(comm):
    """The arrays in shared memory that a communicator makes from now on."""
    made, make = [], comm.empty

    def empty(*args):
        made.append(make(*args))
        return made[-1]

    comm.empty = empty
    return made


def test_the_same_calls_are_timed_on_either_kind_of_arrays():
    def run(comm):
        made, cells = arrays_made_by(comm), list(heap.cells((4096,)))
        rows = [heap.compare(cell, comm, turns=1) for cell in cells]
        assert [(row["collective"], row["place"]) for row in rows] == list(heap.CALLS)
        assert all((heap.gains(row[part]) > 0).all() for row in rows for part in PARTS)
        sums = {cell: [] for cell in cells}
        for cell in cells:
            del made[:]
            for use in heap.uses(cell, comm).values():
                use.write()
                found = use.call()
                sums[cell].append(found.tobytes())
            assert any(np.shares_memory(found, array) for array in made)
        return [first == second for first, second in sums.values()]

    for same in threads(run, 2):
        assert all(same)
