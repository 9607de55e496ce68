"""Parameters: each has a range, and what is in it makes a right schedule or is refused."""

import time
from inspect import signature

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collalgo import ALGORITHMS, AlgorithmNotApplicable, select, simulate, threads
from collalgo._kernels import transport
from collalgo.algorithms import candidates, find, named
from collalgo.algorithms.parameters import COMMON, OWN
from collalgo.collective import COLLECTIVES
from collalgo.errors import RulesError
from collalgo.prover import Prover
from collalgo.schedule import LANES, recv, send, staggered, together, trace
from collalgo.selection.rules import Rules
from collalgo.topology import Topology
from collalgo.verify import prove_once, verify
from tests.oracle import check, vectors

pytestmark = pytest.mark.parallel

SIZES = (1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 25)

#: Values in and out of the range of each parameter, whatever the number of ranks.
VALUES = {
    "segments": [1, 2, 3, 4, 9],
    "lanes": [1, 2, 3, 5, 8],
    "radix": [2, 3, 4, 5, 6, 9, 1000],
    "blocks": [1, 2, 3, 9],
    "axes": [1, 2, 3, 4],
    "chains": [1, 2, 3, 100],
    "rings": [1, 2, 9],
    "leaders": [1, 2, 3, 50],
    "batch": [None, 1, 2, 50],
    "aggregation": [None, 1, 2, 50],
    "dims": [(), (2, 2), (1, 3), (3, 1, 1), (2, 2, 2), (2, 4), (3, 3), (5, 5), (16,)],
    "hosts": [(), (1, 2), (2, 2, 1), (5, 2), (4, 4), (1, 7), (8, 8), (9, 8), (5,) * 5],
    "cycles": [(), ((0, 1),), ((0, 1, 2), (2, 1, 0)), ((0, 2, 1, 3),) * 5],
    "trees": [(), ((-1, 0, 1), (1, 2, -1)), ((-1, 0, 0, 1, 1),) * 9],
    "weights": [(), (1, 2), (3, 1)],
    "large": [(), ((0, 1), (1, 2))],
}

#: Values that no number of ranks makes right.
WRONG = [0, -1, 10**11, 2.5, "4", None, True, (0, -3), [[]], {}, b"\1", float("nan")]


def rows_with_parameters():
    return [row for row in ALGORITHMS if not row.unproved]


def outcome(row, size, parameters, root):
    """The proof of what a name means, or the reason why it is refused."""
    try:
        values = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        variant = find(row.collective, f"{row.name}({values})", size)
        prove_once(variant.schedule, size, row.collective, root)
        return variant, None
    except AlgorithmNotApplicable as error:
        return None, error


@st.composite
def asked(draw):
    """A row, a number of ranks and some of its parameters."""
    row = draw(st.sampled_from(rows_with_parameters()))
    size = draw(st.sampled_from(SIZES))
    names = draw(st.sets(st.sampled_from(row.known), max_size=3))
    parameters = {
        name: draw(
            st.permutations(range(size)).map(tuple)
            if name == "order"
            else st.sampled_from(VALUES[name])
        )
        for name in sorted(names)
    }
    return row, size, parameters, draw(st.integers(0, size - 1))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(asked())
def test_parameters_in_range_are_proved_or_refused(case):
    row, size, parameters, root = case
    root = root if COLLECTIVES[row.collective].rooted else 0
    variant, refusal = outcome(row, size, parameters, root)
    if refusal is None:
        for rank in range(size):
            trace(variant.schedule, rank, size, root)
    else:
        assert row.collective in str(refusal)
        assert "other bits on other ranks, which" not in str(refusal)
        assert "the algorithm has" not in str(refusal)
