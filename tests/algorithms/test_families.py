"""What is special about each family."""

from fractions import Fraction
from itertools import pairwise
from math import ceil, gcd, log2

import pytest

from collalgo import Group, Topology, select, verify
from collalgo.algorithms import (
    binary_blocks,
    bine,
    circulant,
    circulant_blocks,
    double_tree,
    radix,
    swing,
    trivance,
)
from collalgo.algorithms.catalogue import find
from collalgo.algorithms.table import candidates
from collalgo.schedule import Kind, trace

SIZES = [2, 3, 5, 7, 8, 12, 16, 17, 33]


def q(size):
    """The logarithm, rounded up."""
    return (size - 1).bit_length()


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_talks_to_two_neighbours(size):
    for collective in ("allreduce", "allgather", "reduce_scatter"):
        assert verify("ring", size=size, collective=collective).links == size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 27, 33, 81])
def test_trivance_triples_what_a_rank_knows_in_a_step(size):
    known = {0}
    for _, right, left in trivance.exchanges(size):
        if size in (3, 9, 27, 81):
            assert right == left
            assert len(right) == len(known)
        assert len(right) + len(left) <= 2 * len(known)
        before = len(known)
        known |= {*range(before, before + len(right) + len(left))}
    assert len(known) == size
    found = verify("trivance", size=size, collective="allreduce")
    assert len(trivance.exchanges(size)) == next(k for k in range(9) if 3**k >= size)
    assert found.steps == 2 * len(trivance.exchanges(size))


@pytest.mark.parametrize("size", [3, 5, 8, 12, 16, 17])
def test_rings_of_different_strides_share_no_link(size):
    rings = min(4, sum(gcd(s, size) == 1 for s in range(1, size)))
    found = verify("multi_ring", size=size, collective="allreduce")
    assert found.links == rings * size
    assert found.sent == Fraction(2 * (size - 1), size)


@pytest.mark.parametrize("size", [4, 6, 8, 12, 16, 34])
def test_neighbor_exchange_talks_to_two_neighbours_in_half_the_steps(size):
    found = verify("neighbor_exchange", size=size)
    assert (found.steps, found.links) == (size // 2, 2 * size)


@pytest.mark.parametrize("size", SIZES)
def test_the_circulant_is_as_short_and_as_light_as_can_be(size):
    found = verify("circulant", size=size, collective="allreduce")
    assert found.rounds == 2 * q(size)
    assert found.volume == found.sent == Fraction(2 * (size - 1), size)
    assert found.reduced == Fraction(size - 1, size)


def test_the_skips_halve_and_round_up():
    for size in range(2, 300):
        skips = circulant.skips(size)
        assert len(skips) == q(size) + 1
        assert all(a == (b + 1) // 2 for a, b in pairwise(skips))


@pytest.mark.parametrize("size", [*range(2, 80), 127, 128, 129, 600])
def test_the_tables_of_the_circulant_broadcast_hold_the_published_conditions(size):
    skips, rounds = circulant.skips(size), q(size)
    tables = [circulant_blocks.receives(rank, size) for rank in range(size)]
    for rank in range(1, size):
        base = circulant_blocks.base_block(rank, size)
        new = {*range(-rounds, 0), base} - {base - rounds}
        assert set(tables[rank]) == new
        for k in range(rounds):
            above = (rank + skips[k]) % size
            if above:
                sent = tables[above][k]
                assert sent == base - rounds or sent in tables[rank][:k]
    assert [tables[skips[k] % size][k] for k in range(rounds)] == [*range(rounds)]


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 7, 8, 13])
@pytest.mark.parametrize("size", SIZES)
def test_the_circulant_broadcast_is_round_optimal(size, blocks):
    for root in {0, 1, size - 1}:
        for collective in ("broadcast", "reduce"):
            found = verify(
                "circulant", size=size, collective=collective, root=root, blocks=blocks
            )
            assert found.rounds == blocks - 1 + q(size)


@pytest.mark.parametrize("size", [*range(2, 70), 100, 128])
def test_no_rank_but_the_root_is_inside_both_trees(size):
    groups = [double_tree.trees(Group.flat(rank, size)) for rank in range(size)]
    parents = [double_tree.parent_of(i, size) for i in range(size)]
    inner = [
        {trees[tree].peer(i) for i in parents[1:] for trees in groups[:1]}
        for tree in (0, 1)
    ]
    assert inner[0] & inner[1] == {0}


@pytest.mark.parametrize(
    ("size", "depth"), [(8, 3), (9, 4), (16, 4), (17, 5), (64, 6), (100, 7), (128, 7)]
)
def test_the_trees_are_as_deep_as_those_of_nccl(size, depth):
    def above(position):
        parent = double_tree.parent_of(position, size)
        return 0 if parent is None else 1 + above(parent)

    assert max(map(above, range(size))) == depth


def test_swing_reaches_out_to_both_sides():
    assert [swing.hop(step) for step in range(7)] == [1, -1, 3, -5, 11, -21, 43]
    for size in range(2, 40, 2):
        for step in range(q(size)):
            for rank in range(size):
                met = swing.reached(rank, step) % size
                assert swing.reached(met, step) % size == rank


@pytest.mark.parametrize("size", [4, 6, 8, 10, 12, 16, 24, 34])
def test_swing_gives_no_chunk_twice(size):
    found = verify("swing", size=size, collective="allreduce")
    assert found.rounds == 2 * q(size)
    assert found.sent == Fraction(2 * (size - 1), size)


def distance(size, algorithm):
    """How far all messages of a broadcast go together, around a ring."""
    row = find("broadcast", algorithm, size)
    return sum(
        min((t.peer - rank) % size, (rank - t.peer) % size)
        for rank in range(size)
        for step in trace(row.schedule, rank, size)
        for t in step
        if t.kind is Kind.SEND
    )


@pytest.mark.parametrize(
    ("size", "bine_distance", "binomial_distance"),
    [(8, 9, 12), (16, 23, 32), (32, 57, 80), (64, 135, 192)],
)
def test_a_bine_tree_is_two_thirds_as_long(size, bine_distance, binomial_distance):
    assert distance(size, "bine") == bine_distance
    assert distance(size, "binomial") == binomial_distance


def test_digits_to_the_base_of_minus_two():
    for size in (2, 4, 8, 16, 64):
        for position in range(size):
            bits = bine.digits(position, size)
            value = sum((-2) ** i for i in range(size) if bits >> i & 1)
            assert (value - position) % size == 0


@pytest.mark.parametrize(
    ("radix_", "blocks", "rounds"), [(2, 32, 4), (3, 27, 5), (4, 24, 6), (8, 22, 8)]
)
def test_bruck_sends_as_many_blocks_as_there_are_digits(radix_, blocks, rounds):
    found = verify("bruck", size=16, collective="alltoall", radix=radix_)
    assert (found.sent, found.rounds) == (Fraction(blocks, 16), rounds)


@pytest.mark.parametrize("size", SIZES)
def test_k_bruck_moves_no_more_than_must_be(size):
    for k in range(2, 7):
        found = verify("bruck", size=size, collective="allgather", radix=k)
        assert found.volume == Fraction(size - 1, size)


@pytest.mark.parametrize("size", [4, 5, 8, 17, 36, 100])
def test_123_doubling_takes_the_published_rounds_and_one_op_fewer(size):
    found = verify("123_doubling", size=size)
    assert found.rounds == ceil(log2(size - 1) + log2(4 / 3))
    assert found.spare == 1
    assert found.order != "any"


@pytest.mark.parametrize(("size", "rounds"), [(36, 6), (1152, 11)])
def test_123_doubling_takes_the_rounds_of_the_paper(size, rounds):
    assert verify("123_doubling", size=size).rounds == rounds


@pytest.mark.parametrize("size", range(1, 40))
def test_binary_blocks_are_the_bits_of_the_size(size):
    blocks = binary_blocks.blocks(size)
    assert [i for block in blocks for i in block] == list(range(size))
    assert all(len(block).bit_count() == 1 for block in blocks)
    assert len(blocks) == size.bit_count()


@pytest.mark.parametrize("size", SIZES)
def test_a_fixed_order_combines_neighbours_only(size):
    for collective, name in (
        ("allreduce", "butterfly"),
        ("reduce_scatter", "butterfly"),
        ("allreduce", "recursive_doubling"),
        ("scan", "recursive_doubling"),
    ):
        assert verify(name, size=size, collective=collective).order != "any"
    for root in range(size):
        found = verify("in_order_binary", size=size, root=root)
        assert found.order != "any"
        assert found.roundings <= 2 * q(size)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 8, 9, 16])
def test_one_reduction_at_a_time_halves_the_error_of_a_long_chain(size):
    assert verify("two_shot", size=size).roundings == size - 1
    assert verify("circulant", size=size, collective="allreduce").roundings == q(size)


@pytest.mark.parametrize("size", [5, 8, 12])
def test_a_forest_shares_the_data_by_weights(size):
    chain = (-1, *range(size - 1))
    back = (*range(1, size), -1)
    for weights in ((1, 1), (3, 1), (2, 5)):
        found = verify("forest", size=size, trees=(chain, back), weights=weights)
        assert found.consistent
        assert found.reduced == 1


def test_pat_sends_no_more_chunks_at_once_than_it_may():
    for size in SIZES:
        for room in (1, 2, 4):
            row = find("allgather", f"pat(aggregation={room})", size)
            for rank in range(size):
                for step in trace(row.schedule, rank, size):
                    assert all(len(t.chunks) <= room for t in step)


def test_a_hybrid_sends_large_blocks_directly():
    large = frozenset({(0, 1), (0, 2), (3, 1)})
    verify("hybrid", size=5, large=large)
    (row,) = (row for row in candidates("alltoall") if row.name == "hybrid")
    for rank in range(5):
        first, *_ = trace(row.schedule, rank, 5, large=large)
        sent = {(rank, t.peer) for t in first if t.kind is Kind.SEND}
        assert sent == {pair for pair in large if pair[0] == rank}
    verify(
        "hybrid", size=5, large=frozenset((i, j) for i in range(5) for j in range(5))
    )


@pytest.mark.parametrize("size", range(1, 200))
def test_factors_and_dimensions_multiply_to_the_size(size):
    for dims in (radix.primes(size), radix.square(size), radix.square(size, 3)):
        product = 1
        for dim in dims:
            product *= dim
        assert product == size
    assert size / 2 < radix.smooth(size, 2) <= radix.smooth(size, 4) <= size


def test_every_collective_has_algorithms():
    from collalgo.schedule.collective import COLLECTIVES

    assert all(len(candidates(name)) >= 3 for name in COLLECTIVES)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 13])
def test_an_exclusive_chain_sends_no_more_than_an_inclusive_one(size):
    chain, scan = (
        verify(name, size=size, collective=collective)
        for name, collective in (("chain", "exscan"), ("linear", "scan"))
    )
    assert (chain.links, chain.sent, chain.order) == (scan.links, scan.sent, "serial")


@pytest.mark.parametrize("name", ["dgx1v", "dgx_h100"])
def test_a_long_exclusive_scan_is_about_as_cheap_as_an_inclusive_one(name):
    machine = Topology.load(name)
    inclusive, exclusive = (
        select(collective, 1 << 30, topology=machine)
        for collective in ("scan", "exscan")
    )
    assert exclusive.seconds < 1.1 * inclusive.seconds
