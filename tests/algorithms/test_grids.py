"""Families on hosts, grids and tori."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from collalgo import Group, verify
from collalgo.algorithms import torus_trees
from collalgo.algorithms.catalogue import find
from collalgo.cost.messages import all_messages

SIZES = [2, 3, 5, 7, 8, 12, 16, 17, 33]


def q(size):
    """The logarithm, rounded up."""
    return (size - 1).bit_length()


@pytest.mark.parametrize(
    ("hosts", "cols"), [((4, 4, 4), 4), ((3, 5, 2), 2), ((1, 7), 1)]
)
def test_hosts_of_any_size_share_rails(hosts, cols):
    size = sum(hosts)
    for collective in ("allreduce", "allgather", "reduce_scatter"):
        verify("hierarchical", size=size, collective=collective, hosts=hosts)
    for root in range(size):
        for name in ("two_level", "striped_chains"):
            verify(name, size=size, root=root, collective="broadcast", hosts=hosts)
        verify("striped_chains", size=size, root=root, collective="reduce", hosts=hosts)
        for collective in ("gather", "scatter"):
            words = {"size": size, "root": root, "collective": collective}
            assert verify("hierarchical", hosts=hosts, segments=1, **words).steps == 2
    for name in ("two_step", "three_step"):
        verify(name, size=size, hosts=hosts)
    found = verify("hierarchical", size=size, collective="allreduce", hosts=hosts)
    assert found.steps == 2 + 2 * (len(hosts) - 1)


@pytest.mark.parametrize("collective", ["gather", "scatter"])
@pytest.mark.parametrize(
    "hosts", [(8, 8), (4, 4, 2), (2, 5, 1), (1, 1, 1), (3,), (16, 17)]
)
def test_all_ranks_of_the_host_of_the_root_carry_what_leaves_it(hosts, collective):
    size, first = sum(hosts), hosts[0]
    row = find(collective, f"hierarchical(hosts={hosts}, segments=1)", size)
    sends = all_messages(row.schedule, size).sends
    crossing = (sends.rank < first) != (sends.peer < first)
    inside = np.minimum(sends.rank, sends.peer)[crossing]
    blocks = np.bincount(inside, minlength=first)
    assert blocks.sum() == size - first
    assert blocks.max() <= sum(-(-other // first) for other in hosts[1:])
    assert np.count_nonzero(blocks) == min(first, max(hosts[1:], default=0))


@pytest.mark.parametrize(("each", "hosts"), [(1, 4), (2, 4), (2, 5), (4, 3), (8, 2)])
def test_stripes_leave_hosts_by_all_rails_and_rings_both_ways(each, hosts):
    size, stripes = each * hosts, max(each, 2)
    row = find(
        "broadcast", f"striped_chains(hosts={(each,) * hosts}, segments=3)", size
    )
    messages = all_messages(row.schedule, size, root=0)
    sends = messages.sends
    far = sends.where(sends.rank // each != sends.peer // each)
    for rank in range(size):
        assert (
            far.share[far.rank == rank].sum()
            <= (2 if each == 1 else 1) / stripes + 1e-9
        )
    ways = (far.peer // each - far.rank // each) % hosts
    assert set(ways.tolist()) <= {1, hosts - 1}
    for way in {1, hosts - 1}:
        for host in range(hosts):
            leaving = far.share[(far.rank // each == host) & (ways == way)].sum()
            assert leaving <= (1 if hosts == 2 else (stripes + 1) // 2 / stripes) + 1e-9


def test_a_torus_between_hosts_moves_what_the_rails_must():
    """The volume of the table of the catalogue: 2(X-1)/X + 2(Y-1)/XY."""
    for x, y in ((4, 3), (2, 8), (5, 5)):
        grid = {"size": x * y, "dims": (x, y)}
        found = verify("torus_2d", collective="allreduce", **grid)
        assert found.volume == Fraction(2 * (x - 1), x) + Fraction(2 * (y - 1), x * y)
        mesh = verify("mesh_2d", **grid)
        assert mesh.volume == Fraction(2 * (x - 1), x) + Fraction(2 * (y - 1), y)
        both = verify("mesh_2d_both_axes", **grid)
        ways = verify("torus_2d_all_ways", collective="allreduce", **grid)
        assert both.steps == ways.steps == found.steps
        assert both.volume == ways.volume == found.volume
        for half in ("reduce_scatter", "allgather"):
            for name in ("torus_2d", "torus_2d_all_ways"):
                once = verify(name, collective=half, **grid)
                assert 2 * once.steps == found.steps
                assert 2 * once.volume == found.volume


@pytest.mark.parametrize("dims", [(2, 3, 4), (4, 3, 2), (2, 2, 2, 3), (24,), (1, 24)])
def test_blueconnect_takes_any_factors(dims):
    for name in ("blueconnect", "bcube"):
        found = verify(name, size=24, collective="allreduce", dims=dims)
        assert found.sent == Fraction(2 * 23, 24)
        assert found.rounds == 2 * sum(d - 1 for d in dims)
    for half in ("reduce_scatter", "allgather"):
        once = verify("bcube", size=24, collective=half, dims=dims)
        assert once.sent == Fraction(23, 24)
        assert once.rounds == sum(d - 1 for d in dims)


def test_lines_of_owners_hold_what_the_ranks_beyond_them_need():
    group = Group.flat(rank=5, size=12)  # column 2, row 1 of a grid of 3 columns
    row, column = group.lines((3, 4), owned=True)
    assert (row.rank, row.size, column.rank, column.size) == (2, 3, 1, 4)
    assert row.chunk(0) == group.chunks_of([0, 3, 6, 9])
    assert row.chunk(2) == column.whole == group.chunks_of([2, 5, 8, 11])
    assert column.chunk(1) == group.chunk(5)


def distances(a, b, dims):
    """How far two ranks are along each axis; their numbers grow along the first."""
    strides = [prod(dims[:i]) for i in range(len(dims))]
    return [
        (a // step - b // step) % length
        for step, length in zip(strides, dims, strict=True)
    ]


@pytest.mark.parametrize("dims", [(3, 3), (4, 5), (3, 4, 5), (1, 3, 6), (3, 3, 3, 3)])
def test_trees_on_a_torus_go_from_neighbour_to_neighbour_and_share_no_link(dims):
    """Roots are anywhere."""
    size, long = prod(dims), tuple(length for length in dims if length > 1)
    for root in (0, size // 2, size - 1):
        heard = set()
        for direction in range(2 * len(long)):
            parents = torus_trees.parents(long, root, direction)
            assert [i for i, parent in enumerate(parents) if parent is None] == [0]
            for child, parent in list(enumerate(parents))[1:]:
                a, b = (root + child) % size, (root + parent) % size
                away = [d for d in distances(a, b, dims) if d]
                assert away in ([1], *([n - 1] for n in long))
                assert (a, b) not in heard
                heard.add((a, b))
        assert len(heard) == 2 * len(long) * (size - 1)
        for collective in ("broadcast", "reduce"):
            verify("torus_2d_trees", collective=collective, root=root, size=size,
                   dims=dims)  # fmt: skip
