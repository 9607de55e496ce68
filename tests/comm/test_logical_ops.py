"""Logical ops give 0 or 1, also of a single contribution, as NumPy's do."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from collalgo import threads

UFUNCS = {"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}
DTYPES = ("i1", "u8", ">i4", "f2", "f4", ">f8", np.longdouble, ml_dtypes.bfloat16)


def contribution(rank, dtype):
    return np.array([0, 5, 2, rank, 7 * (rank % 2)]).astype(dtype)


def prefixes(size, dtype, ufunc):
    """The results of the first ranks together, for each number of them."""
    truths = [contribution(rank, dtype) != 0 for rank in range(size)]
    found = [ufunc.reduce(truths[: n + 1], axis=0) for n in range(size)]
    return np.array(found).astype(dtype)


def check_calls(comm, form, dtype, op):
    mine, totals = (
        contribution(comm.rank, dtype),
        prefixes(comm.size, dtype, UFUNCS[op]),
    )

    def same(name, buf, wanted):
        found = getattr(comm, name + form)(buf, op=op)
        found = found.wait() if form else found
        assert found.dtype == np.dtype(dtype)
        assert (found == wanted).all(), (name, op, dtype)

    same("allreduce", mine.copy(), totals[-1])
    same("scan", mine.copy(), totals[comm.rank])
    same("exscan", mine.copy(), totals[comm.rank - 1] if comm.rank else mine)
    same("reduce_scatter", np.tile(mine, (comm.size, 1)), totals[-1])
    found = comm.reduce(mine.copy(), op)
    assert found is None if comm.rank else (found == totals[-1]).all()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("form", ["", "_async"])
def test_all_results_are_those_of_numpy(size, form):
    def each(comm):
        for dtype, op in product(DTYPES, UFUNCS):
            check_calls(comm, form, dtype, op)

    threads(each, size, timeout=60)
