"""Every row of the table: proved for many sizes and every root, then run."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from collalgo import ALGORITHMS, threads, verify
from collalgo._kernels.engine.transport.transport import LANES
from collalgo.algorithms import k_nomial, linear, ring
from collalgo.algorithms.catalogue import find
from collalgo.algorithms.row import own_parameters
from collalgo.schedule import together, trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.replay import Replay
from tests.support.leisure import at_leisure
from tests.support.oracle import check, reduced, same, vectors

EVERY_ROOT = 17

#: Sizes that are proved every time.
QUICK = {*range(1, 10), 12, 16, 33}


def rows_of(size, collective=None):
    return [
        row
        for row in ALGORITHMS
        if row.obstacle(size) is None and collective in (None, row.collective)
    ]


def rooted(row):
    return COLLECTIVES[row.collective].rooted


def some_roots(row, size):
    return sorted({0, 1 % size, size // 2, size - 1}) if rooted(row) else [0]


def proofs(size, **parameters):
    for row in rows_of(size):
        if "lanes would be needed" in (
            row.with_parameters(parameters).obstacle(size) or ""
        ):
            continue
        roots = range(size) if rooted(row) and size <= EVERY_ROOT else [size // 2]
        for root in roots if rooted(row) else [0]:
            yield (
                row,
                verify(
                    row.schedule,
                    size=size,
                    collective=row.collective,
                    root=root,
                    **parameters,
                ),
            )


@pytest.mark.parametrize("size", at_leisure(range(64, 0, -1), QUICK))
def test_it_is_proved(size):
    for row, proof in proofs(size):
        assert proof.consistent, f"{row.name} gives the ranks different bits"
        assert proof.order == "serial" or not row.keeps_rank_order


CUT = [{"segments": 3}, {"lanes": 2}, {"segments": 2, "lanes": 2}]


@pytest.mark.parametrize(
    ("size", "parameters"),
    at_leisure(
        product([1, 2, 3, 5, 8, 12], CUT), [*product([1, 2, 3], CUT), (8, CUT[2])]
    ),
)
def test_it_is_proved_in_segments_and_on_lanes(size, parameters):
    for row, proof in proofs(size, **parameters):
        assert proof.consistent, f"{row.name} gives the ranks different bits"


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12])
def test_it_is_proved_for_other_orders_of_the_ranks(size):
    order = [(3 + i * (5 if size % 5 else 3)) % size for i in range(size)]
    for row in rows_of(size):
        if row.collective in ("scan", "exscan"):
            continue
        if "different bits" in (
            row.with_parameters({"order": order}).obstacle(size) or ""
        ):
            continue
        proof = verify(row.schedule, size=size, collective=row.collective, order=order)
        assert proof.consistent, f"{row.name} gives the ranks different bits"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6, 8, 9, 12, 17])
def test_what_is_sent_in_a_step_is_received_in_the_same(size):
    """Only so can schedules run side by side without waiting for each other."""
    for row in rows_of(size):
        replay = Replay([trace(row.schedule, rank, size) for rank in range(size)])
        out, into = (
            step - replay.first_step[replay.rank_of[step]]
            for step in (replay.out, replay.into)
        )
        assert (out == into).all(), f"{row.collective} {row.name}"


@pytest.mark.parametrize("size", at_leisure([*range(1, 10), 12, 16, 17], {1, 2, 3}))
def test_it_runs_for_awkward_counts(size):
    few = size > 8  # ranks that take turns on the cores are slow

    def on_each_rank(comm):
        for count in (1, 1000) if few else (0, 1, size + 1, 1000):
            inputs = vectors(size, count, np.float32, seed=count)
            for row in rows_of(size):
                for root in some_roots(row, size)[-1 if few else 0 :]:
                    check(comm, row, inputs, root=root)

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize(
    ("size", "every"),
    at_leisure([(5, 1), (8, 1), (17, 1), (17, 5)], {(5, 1), (8, 1), (17, 5)}),
)
def test_it_runs_for_counts_and_roots_by_turns(size, every):
    """Of many ranks all algorithms have their turn in make slow, here some."""

    def on_each_rank(comm):
        inputs = [vectors(size, count, np.float32) for count in (1000, size + 1, 1, 0)]
        for number, row in enumerate(rows_of(size)[::every]):
            roots = some_roots(row, size)
            for turn in (number, number + 1) if size < 10 else (number,):
                data, root = inputs[turn % len(inputs)], roots[turn % len(roots)]
                check(comm, row, data, root=root)

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize("size", at_leisure([2, 3, 4, 7], {2, 3}))
def test_it_runs_for_data_of_many_segments(size):
    def on_each_rank(comm):
        inputs = vectors(size, 200_001, np.float64)
        for row in rows_of(size):
            check(comm, row, inputs, op="max", root=size - 1)

    threads(on_each_rank, size, timeout=120)


def lanes_of(row, size):
    """How many lanes an algorithm has of its own, if nothing is cut."""
    whole = partial(row.schedule, segments=1)
    steps = [step for rank in range(size) for step in trace(whole, rank, size)]
    return 1 + max((transfer.lane for step in steps for transfer in step), default=0)


@pytest.mark.parametrize("size", at_leisure([3, 4], {3}))
def test_it_runs_in_segments_and_on_lanes(size):
    def on_each_rank(comm):
        for count in (5, 40_000):
            inputs = vectors(size, count, np.float32)
            for row in rows_of(size):
                lanes = 2 * lanes_of(row, size)  # as segments take two by turns
                if lanes > LANES:
                    continue
                several = ", lanes=2" if 2 * lanes <= LANES else ""
                variant = row._replace(name=f"{row.name}(segments=3{several})")
                check(comm, variant, inputs, root=size - 1)

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize("size", at_leisure([1, 2, 3, 5, 8, 12, 17], {1, 2, 5}))
def test_an_average_is_divided_once_whoever_completes_the_sum(size):
    def on_each_rank(comm):
        for dtype in (np.float32, np.int16):
            inputs = vectors(size, 1000, dtype)
            for row in rows_of(size):
                if row.collective in ("allreduce", "reduce", "reduce_scatter"):
                    check(comm, row, inputs, op="avg", root=size // 2)

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize("size", [2, 6, 7])
def test_an_average_on_any_grid_and_hierarchy_is_divided_once(size):
    grids = {(size, 1), (1, size), (size // 2, 2), (2, size // 2)}
    values = {"dims": [g for g in grids if g[0] * g[1] == size]}
    values["hosts"] = [(size,), (1,) * size, (1, size - 1)]

    def on_each_rank(comm):
        inputs = vectors(size, 100, np.float32)
        for row in rows_of(size, "allreduce"):
            for name in {"dims", "hosts"} & set(own_parameters(row.function)):
                for value in values[name]:
                    variant = row._replace(name=f"{row.name}({name}={value})")
                    if find("allreduce", variant.name, size).obstacle(size) is None:
                        check(comm, variant, inputs, op="avg")

    threads(on_each_rank, size, timeout=120)


def gathered_and_sent_back(group):
    """Those that complete sums receive them again."""
    yield from ring.reduce_scatter(group)
    yield from linear.gather(group)
    yield from linear.broadcast(group)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_an_average_by_a_schedule_of_the_user_is_divided_once(size, dtype):
    inputs = vectors(size, 100, dtype)

    def on_each_rank(comm):
        for schedule in (gathered_and_sent_back, ring.allreduce, k_nomial.allreduce):
            mine = inputs[comm.rank].copy()
            own = partial(schedule)
            yield comm.allreduce(mine, op="avg", algorithm=own)

    for results in threads(lambda comm: [*on_each_rank(comm)], size):
        for result in results:
            same(result, reduced(inputs, "avg"))


@pytest.mark.parametrize("size", [3, 8, 13])
def test_an_allreduce_gives_the_same_bits_on_every_rank(size):
    """With numbers whose sum depends on the order, which whole numbers do not show."""
    rng = np.random.default_rng(1)
    data = [
        (rng.standard_normal(999) * 10.0 ** rng.integers(-9, 9, 999)).astype(np.float32)
        for _ in range(size)
    ]

    def on_each_rank(comm):
        return [
            comm.allreduce(data[comm.rank].copy(), algorithm=row.name).tobytes()
            for row in rows_of(size, "allreduce")
        ]

    first, *others = threads(on_each_rank, size, timeout=120)
    for other in others:
        assert other == first


@pytest.mark.parametrize("size", range(2, 18))
def test_a_ring_talks_to_two_neighbours(size):
    for collective in ("allreduce", "allgather", "reduce_scatter"):
        assert verify("ring", size=size, collective=collective).links == size


@pytest.mark.parametrize("size", [2, 3, 4, 7])
def test_a_schedule_of_the_user_runs_on_lanes_in_both_directions(size):
    def both_ways(group):
        there, back = group.shares(2)
        yield from together(ring.allreduce(there), ring.allreduce(back.reversed))

    both_ways.__name__ = "allreduce"

    def on_each_rank(comm):
        for count in (1, size, 1000, 300_001):
            inputs = vectors(size, count, np.float32)
            result = comm.allreduce(inputs[comm.rank].copy(), algorithm=both_ways)
            same(result, reduced(inputs, "sum"))

    threads(on_each_rank, size, timeout=120)


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2), (3, 4)])
def test_a_torus_of_the_user_runs(shape):
    rows, cols = shape

    def torus(group):
        row, column = group.grid(rows, cols)
        yield from ring.reduce_scatter(row)
        yield from ring.allreduce(column)
        yield from ring.allgather(row)

    def on_each_rank(comm):
        for count in (1, 1000, 300_001):
            inputs = vectors(comm.size, count, np.float32)
            result = comm.allreduce(inputs[comm.rank].copy(), "avg", algorithm=torus)
            same(result, reduced(inputs, "avg"))

    threads(on_each_rank, rows * cols, timeout=120)
