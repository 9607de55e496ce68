"""Proofs for a thousand ranks and more."""

from itertools import product

import pytest

from collalgo import ALGORITHMS, verify
from tests.support.leisure import at_leisure

#: Algorithms of which every rank talks to so few that thousands take seconds.
SHORT = [
    row
    for row in ALGORITHMS
    if row.collective != "alltoall"
    and row.name
    in {
        *("bine", "binomial", "binary", "blueconnect", "bruck", "butterfly"),
        *("circulant", "dissemination", "double_tree", "halving_doubling", "k_bruck"),
        *("k_dissemination", "k_nomial", "rabenseifner", "recursive_doubling"),
        *("recursive_halving", "recursive_multiplying", "reduce_broadcast", "tree"),
        *("two_level", "van_de_geijn_doubling", "123_doubling", "in_order_binary"),
    }
]


def ids(value):
    return value if isinstance(value, int) else f"{value.collective}-{value.name}"


@pytest.mark.parametrize(
    ("row", "size"),
    at_leisure(product(SHORT, [1000, 1024]), [*product(SHORT[::3], [1000])]),
    ids=ids,
)
def test_a_thousand_ranks(row, size):
    """Each third algorithm is quick; up to 33 ranks all of them are."""
    root = 617 if row.collective in ("broadcast", "reduce", "gather", "scatter") else 0
    proof = verify(row.schedule, size=size, collective=row.collective, root=root)
    assert proof.consistent


@pytest.mark.parametrize(
    ("collective", "name", "rounds"),
    [
        pytest.param("allreduce", "circulant", 24, marks=pytest.mark.slow),
        ("allreduce", "recursive_doubling", 12),
        pytest.param("reduce_scatter", "recursive_halving", 12, marks=pytest.mark.slow),
        ("broadcast", "binomial", 12),
        pytest.param("scan", "recursive_doubling", 12, marks=pytest.mark.slow),
        pytest.param("exscan", "123_doubling", 13, marks=pytest.mark.slow),
        ("barrier", "dissemination", 12),
    ],
)
def test_4096_ranks(collective, name, rounds):
    assert verify(name, size=4096, collective=collective).rounds == rounds


@pytest.mark.parametrize("size", at_leisure([128, 256, 257], {128}))
def test_the_steps_that_thousands_of_messages_take(size):
    """Rings, meshes and alltoalls, whose proofs grow with the square of the ranks."""
    for collective, name in (
        ("allreduce", "ring"),
        ("allreduce", "two_shot"),
        ("allreduce", "mesh_2d_both_axes"),
        ("alltoall", "bruck"),
        ("alltoall", "pairwise"),
        ("gather", "linear"),
        ("scan", "linear"),
    ):
        assert verify(name, size=size, collective=collective).consistent
