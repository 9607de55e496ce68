"""What the first word needs at least, against closed forms and all schedules."""

import pytest

from collalgo import ALGORITHMS, Topology, simulate
from collalgo.cost.bounds import BOUNDED, bound
from collalgo.cost.latencies import telling
from collalgo.cost.roads import ranks_of
from collalgo.cost.simulation import MODELS

pytestmark = pytest.mark.parallel


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 17, 64, 100])
def test_with_a_gap_of_the_latency_ranks_double(ranks):
    assert telling(ranks, 2.0, 2.0) == 2.0 * (ranks - 1).bit_length()


def test_with_a_short_gap_the_tree_is_that_of_karp():
    """The published tree: P = 8, L + 2 o = 10, g = 4 tells the last rank at 24."""
    assert telling(8, 10.0, 4.0) == 24.0


def test_a_word_goes_around_half_a_ring():
    ring = Topology.load("torus", dims=(12,), latency=1e-6)
    assert bound("allreduce", ring).latency == pytest.approx(6e-6)
    assert bound("reduce", ring).latency == pytest.approx(6e-6)


def test_a_barrier_is_bounded_by_latency_alone():
    machine = Topology.load("dgx_a100")
    least = bound("barrier", machine)
    assert least.bandwidth == float("inf")
    assert least.seconds(0) == pytest.approx(telling(8, 0.6e-6, 0.3e-6))
    assert "to reach every rank" in least.why(0)


MACHINES = {
    "NVSwitch": lambda: Topology.load("dgx_a100"),
    "hosts": lambda: Topology.load("dgx1v", hosts=2, nics=2),
    "ring": lambda: Topology.load("torus", dims=(7,), latency=1e-6),
    "no latency": lambda: Topology.load("torus", dims=(2, 3), latency=0.0),
}


@pytest.mark.parametrize("name", MACHINES)
def test_no_schedule_is_faster_than_a_word(name):
    machine = MACHINES[name]()
    size = len(ranks_of(machine))
    for collective in BOUNDED:
        least = bound(collective, machine).seconds(8)
        for row in ALGORITHMS:
            if row.collective == collective and row.obstacle(size) is None:
                for model in MODELS:
                    found = simulate(
                        row.schedule, machine, 8, collective=collective, model=model
                    )
                    assert found.seconds >= least * (1 - 1e-9), (row.name, model)
