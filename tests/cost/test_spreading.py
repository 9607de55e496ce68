"""The least time of a broadcast whose ranks send few messages in a step."""

from itertools import product
from math import sqrt

import pytest

from collalgo import Topology, simulate
from collalgo.cost.bounds import bound
from collalgo.cost.link_model import LinkModel
from collalgo.cost.spreading import Spread, spread_over
from collalgo.topology.fabrics import Cable, nodes_of, star


def waiting(parts, ranks, latency, gap, messages):
    """The seconds until some messages in each step have reached all parts."""
    found, reached = 0.0, 1
    for count in messages:
        found += (latency + (count - 1) * gap) * max(0.0, 1 - reached / parts)
        reached *= 1 + ranks * count
    return found if reached >= parts else float("inf")


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7, 8, 12, 16])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("gap", [0.0, 0.1, 0.5, 3.0])
def test_the_waits_are_those_of_the_best_messages(parts, ranks, gap):
    found = spread_over(1.0, parts, ranks, 1.0, gap).waits
    most = max(1, parts - 1)
    tried = product(range(1, most + 1), repeat=4 if parts <= 8 else 3)
    some = [waiting(parts, ranks, 1.0, gap, messages) for messages in tried]
    doubled = waiting(parts, ranks, 1.0, gap, (1, 1, 1, 1))
    assert found <= min(*some, doubled) + 1e-12
    if parts <= 8:
        assert found == pytest.approx(min(*some, doubled))


def test_no_parts_wait_for_nothing():
    assert spread_over(1.0, 0, 1, 1.0, 0.5) == Spread(1.0, 0.0, 0.0)
    assert spread_over(2.0, 0, 1, 1.0, 0.5).seconds(1e9) == pytest.approx(2.0)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 16, 17, 33])
@pytest.mark.parametrize("gap", [1e-6, 1e-4])
def test_on_a_switch_the_circulant_broadcast_is_near_it(size, gap):
    """It has one message in each step; two would be as fast, or slower."""
    topology, nbytes = Topology(f"star{size}", "a test"), 1 << 30
    star(topology, [*nodes_of(topology, size)], "switch", Cable(25.0, 5e-6))
    model = LinkModel(message=gap)
    limit = bound("broadcast", topology, link_model=model).in_rounds(nbytes)
    seconds = nbytes / 25e9
    segments = round(sqrt(seconds / 1e-5 * (size - 1).bit_length()))
    found = simulate(
        f"circulant(blocks={segments})",
        topology,
        nbytes,
        collective="broadcast",
        link_model=model,
    )
    assert limit <= found.seconds <= 1.05 * limit
