"""The choice follows from the prices of the schedules, and says so."""

import json

import numpy as np
import pytest

from collalgo import ALGORITHMS, select, threads
from collalgo.algorithms.catalogue import find
from collalgo.comm.current import runner_of
from collalgo.cost.host_price import FURTHER, HANDOVERS, HostPrice
from collalgo.cost.host_profile import (
    HostProfile,
    host_profile,
    known_profile,
)
from collalgo.schedule import trace
from collalgo.selection import on_host
from tests.support.paths import ROOT

pytestmark = pytest.mark.deadline

ONE_CORE_EACH = HostProfile(1e-6, 3e-6, 1e-8, 1e-10, 2e-10, cores=64)


def unsliced(name, collective, nbytes, size):
    row = find(collective, name, size)
    schedules = [trace(row.schedule, rank, size) for rank in range(size)]
    return HostPrice(schedules, ONE_CORE_EACH).seconds(nbytes, 1)


def prices(collective, nbytes, size, machine=ONE_CORE_EACH):
    chosen = select(collective, nbytes, size=size, machine=machine)
    return {c.algorithm: c.seconds for c in chosen.candidates}


def by_hand(steps, messages, copied, reduced):
    m = ONE_CORE_EACH
    return (
        steps * m.latency + messages * m.message + copied * m.copy + reduced * m.reduce
    )


#: The machine of the recorded runs of ranks that share cores.
SHARED_CORES = HostProfile(1.6e-7, 1.6e-6, 5.4e-8, 4.7e-11, 4.3e-11, cores=2)


EXCHANGES = ("allreduce", "allgather", "reduce_scatter", "alltoall")


@pytest.mark.parametrize("run", ["four_ranks", "eight_ranks"])
def test_where_ranks_share_cores_short_exchanges_are_priced_as_measured(run):
    results = json.loads((ROOT / f"bench/results/{run}.json").read_text())["results"]
    rows = [
        row
        for row in results
        if row["contestant"] == "collalgo"
        and row["collective"] in EXCHANGES
        and row["size"] <= 1 << 15
    ]
    assert len(rows) == 5 * len(EXCHANGES)
    for row in rows:
        found = prices(row["collective"], row["size"], row["ranks"], SHARED_CORES)
        assert 0.5 < row["p50"] / found[row["algorithm"]] < 2, row


@pytest.mark.parametrize("size", [3, 4, 5, 8])
@pytest.mark.parametrize("collective", EXCHANGES)
def test_where_ranks_share_cores_the_cheapest_is_chosen(collective, size):
    for nbytes in (8, 1 << 10, 1 << 15, 1 << 16, 1 << 20):
        chosen = select(collective, nbytes, size=size, machine=SHARED_CORES)
        least = min(one.seconds for one in chosen.candidates)
        assert chosen.seconds <= least * (1 + on_host.ALIKE)


@pytest.mark.parametrize("nbytes", [0, 1 << 12, 1 << 20])
def test_the_price_of_the_textbook_is_found(nbytes):
    """Alpha, beta and gamma of ring and recursive doubling on 8 ranks, by hand."""
    found = {
        name: unsliced(name, "allreduce", nbytes, 8)
        for name in ("ring", "recursive_doubling")
    }
    moved, combined = 14 / 8 * nbytes, 7 / 8 * nbytes
    assert found["ring"] == pytest.approx(
        by_hand(14, 28, moved + combined, combined), rel=1e-6
    )
    assert found["recursive_doubling"] == pytest.approx(
        by_hand(3, 6, 3 * nbytes, 3 * nbytes), rel=1e-6
    )


def test_what_is_reduced_at_once_is_written_once():
    nbytes = 1 << 16
    found = unsliced("linear", "reduce", nbytes, 4)
    combined = (1 + 2 * FURTHER) * nbytes
    assert found == pytest.approx(by_hand(1, 1 + 3, nbytes, combined), rel=1e-6)


def test_a_tree_costs_its_longest_path():
    found = prices("broadcast", 0, 8)
    assert found["binomial"] == pytest.approx(by_hand(3, 3 + 1, 0, 0), rel=0.05)


def test_short_messages_want_few_steps_and_long_ones_few_bytes():
    assert (
        select("allreduce", 8, size=16, machine=ONE_CORE_EACH).algorithm == "one_shot"
    )
    long = prices("allreduce", 1 << 26, 16)
    assert long["one_shot"] > 2 * long["ring"]
    assert long["two_shot"] <= long["ring"]


def test_shared_cores_make_every_wait_a_switch():
    shared = HostProfile(1e-6, 3e-6, 1e-8, 1e-10, 2e-10, cores=2)
    # Until the first messages come each of the 8 ranks makes 3 others of its core wait.
    in_vain = 8 * 3 * 3e-6 / 2
    crowded = prices("barrier", 0, 8, shared)["dissemination"] - in_vain
    assert crowded == pytest.approx((8 + 1) * 3 * (3e-6 + 2e-8) / 2, rel=1e-6)
    assert crowded > prices("barrier", 0, 8)["dissemination"]
    # Who waits for seven messages at once waits once.
    at_once = prices("allgather", 0, 8, shared)["direct"] - in_vain
    assert at_once == pytest.approx((8 + 1) * (3e-6 + 14e-8) / 2, rel=1e-6)


def test_between_two_sizes_of_the_grid_a_price_is_a_straight_line():
    low, middle, high = (
        unsliced("ring", "allreduce", n, 5) for n in (1 << 20, 3 << 19, 1 << 21)
    )
    assert middle == pytest.approx((low + high) / 2)


def test_beyond_the_caches_copies_cost_more():
    near = ONE_CORE_EACH
    far = near._replace(copy_far=5e-10, reduce_far=8e-10, cache=1 << 20)
    for nbytes in (1 << 10, 1 << 14, 1 << 24):
        usual = prices("allreduce", nbytes, 8, near)["ring"]
        slow = prices("allreduce", nbytes, 8, far)["ring"]
        if 16 * nbytes <= far.cache:  # in and out of all ranks
            assert slow == usual
        else:
            moved, combined = 21 / 8 * nbytes, 7 / 8 * nbytes
            most = moved * (5e-10 - 1e-10) + combined * (8e-10 - 2e-10)
            assert usual < slow <= usual + most * 1.01


def test_slices_let_the_ends_of_a_chain_work_at_the_same_time():
    row = find("broadcast", "linear", 2)
    price = HostPrice(
        [trace(row.schedule, rank, 2) for rank in range(2)], ONE_CORE_EACH
    )
    assert price.slices.at(8)[0] == 1
    assert price.slices.at(1 << 18)[0] > 1
    long = 1 << 28
    assert price.seconds(long) < 0.6 * price.seconds(long, 1)
    assert price.seconds(long) > ONE_CORE_EACH.copy * long


def test_a_further_slice_costs_its_handovers_at_each_receiver():
    row = find("broadcast", "linear", 2)
    schedules = [trace(row.schedule, rank, 2) for rank in range(2)]
    one, slow = (
        HostPrice(schedules, ONE_CORE_EACH._replace(latency=latency))
        for latency in (1e-6, 1e-3)
    )
    assert one.slices.at(1 << 18)[0] > slow.slices.at(1 << 18)[0] == 1
    further = slow.seconds(1 << 18, 3) - slow.seconds(1 << 18, 2)
    assert further == pytest.approx(HANDOVERS * 1e-3, rel=0.01)


@pytest.mark.parametrize("collective", ["broadcast", "reduce", "scatter"])
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_slices_and_segments_cost_the_same(collective, parts):
    sliced, segments = (
        HostPrice([trace(row.schedule, rank, 2) for rank in range(2)], ONE_CORE_EACH)
        for row in (
            find(collective, "linear", 2),
            find(collective, f"linear(segments={parts})", 2),
        )
    )
    for nbytes in (0, 1 << 14, 1 << 20):
        assert sliced.seconds(nbytes, parts) == pytest.approx(
            segments.seconds(nbytes, 1), rel=1e-9
        )


def test_what_cannot_run_is_listed_with_its_reason():
    chosen = select("allgather", 100, size=7, machine=ONE_CORE_EACH)
    last = next(c for c in chosen.candidates if c.algorithm == "neighbor_exchange")
    assert "even number" in last.obstacle
    assert last.obstacle in chosen.explain()
    assert chosen.algorithm in chosen.explain()


def test_every_algorithm_has_a_price_at_every_size():
    nbytes = np.array([0.0, 1.0, 1e6])
    for row in ALGORITHMS:
        for size in (1, 2, 3, 8, 9):
            if row.obstacle(size) is None:
                schedules = [trace(row.schedule, rank, size) for rank in range(size)]
                price = HostPrice(schedules, ONE_CORE_EACH)
                seconds = np.array([price.seconds(n) for n in nbytes])
                assert (np.diff(seconds) >= 0).all()
                assert (seconds > 0).all() or size == 1


def test_an_unknown_collective_lists_the_choices():
    with pytest.raises(ValueError, match="choose one of allreduce, broadcast"):
        select("all_reduce", 8, size=2)


def test_a_communicator_chooses_what_selection_says():
    def on_each_rank(comm):
        comm.allreduce(np.ones(100, np.float32))
        chosen = comm.select("allreduce", 400).algorithm
        assert f"{chosen})" in comm_last_call(comm)

    def comm_last_call(comm):
        from collalgo.comm.failures import _call

        return _call(runner_of(comm).context.shared.call(comm.rank))

    threads(on_each_rank, 3)


def test_ranks_that_measure_at_the_same_time_agree(monkeypatch, tmp_path):
    """With figures of its own, each rank would choose an algorithm of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(5):
        for path in tmp_path.rglob("*.json"):
            path.unlink()
        known_profile.cache_clear()
        figures = threads(lambda comm: host_profile(), 4)
        assert all(one is figures[0] for one in figures)
    known_profile.cache_clear()


@pytest.mark.parametrize("cores", [2, 16])
@pytest.mark.parametrize(
    "collective", ["allreduce", "broadcast", "allgather", "gather"]
)
def test_what_is_chosen_by_the_steps_of_some_ranks_is_good_for_all(
    collective, cores, monkeypatch
):
    profile = ONE_CORE_EACH._replace(cores=cores)
    pricer = on_host.HostPricer(33, profile)
    by_some = pricer._choices(collective, reproducible=False)
    monkeypatch.setattr(on_host, "ALL_RANKS", 33)
    by_all = pricer._choices(collective, reproducible=False)
    for nbytes in (8, 1000, 100_000, 10_000_000):
        chosen = pricer.price_one(by_some.at(nbytes).row).price.seconds(nbytes)
        assert chosen < 2.5 * by_all.at(nbytes).price.seconds(nbytes)
