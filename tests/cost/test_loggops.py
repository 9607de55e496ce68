"""LogGOPS takes the published times."""

import pytest

from collalgo import ScheduleError, Topology
from collalgo.algorithms.catalogue import find
from collalgo.cost.loggops import LogGOPS, finish_times
from collalgo.cost.simulation import MODELS, simulate
from collalgo.schedule import recv, send, trace


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("name", ["ring", "neighbor_exchange", "recursive_doubling"])
def test_the_three_models_agree_where_nothing_is_shared(name, n):
    """One message at a time to each rank, all links alike, no overheads."""
    machine = Topology.load("fully_connected", hosts=n, bandwidth=2.0, latency=5e-6)
    schedule = find("allgather", name, n).schedule
    seconds = [
        simulate(schedule, machine, 1000 * n, collective="allgather", model=m).seconds
        for m in MODELS
    ]
    model = LogGOPS(latency=5e-6, overhead=0.0, gap=0.0, gap_per_byte=0.5e-9)
    times = finish_times([trace(schedule, r, n) for r in range(n)], 1000 * n, model)
    assert seconds[0] == pytest.approx(seconds[1])
    # LogGP counts the bytes after the first one.
    assert max(times) == pytest.approx(seconds[0], rel=1e-3)


PUBLISHED = LogGOPS(latency=2500, overhead=1500, gap=1000, gap_per_byte=6)


def test_the_published_example_takes_the_published_times():
    schedule = find("reduce", "binomial", 8).schedule
    schedules = [trace(schedule, rank, 8) for rank in range(8)]
    times = sorted(finish_times(schedules, 1024, PUBLISHED), reverse=True)
    assert times == [34914, 24776, 13138, 13138, 1500, 1500, 1500, 1500]


@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_without_overheads_loggops_is_alpha_beta(n):
    schedule = find("allgather", "ring", n).schedule
    schedules = [trace(schedule, rank, n) for rank in range(n)]
    model = LogGOPS(latency=5.0, overhead=0.0, gap=0.0, gap_per_byte=0.5)
    times = finish_times(schedules, 1000 * n, model)
    assert times == pytest.approx([(n - 1) * (5.0 + 999 * 0.5)] * n)


def test_sends_of_one_rank_keep_their_distance():
    def scatter(group):
        if group.rank == 0:
            yield tuple(send(r, group.chunk(r)) for r in range(1, group.size))
        else:
            yield recv(0, group.chunk(group.rank))

    schedules = [trace(scatter, rank, 4) for rank in range(4)]
    model = LogGOPS(latency=10, overhead=1, gap=100, gap_per_byte=0)
    assert finish_times(schedules, 4, model)[1:] == [12, 112, 212]


def test_a_message_that_is_never_sent_is_an_error():
    def wait(group):
        if group.rank == 1:
            yield recv(0, group.chunk(0))

    schedules = [trace(wait, rank, 2) for rank in range(2)]
    with pytest.raises(ScheduleError, match="step 0 of rank 1 waits"):
        finish_times(schedules, 8, PUBLISHED)
