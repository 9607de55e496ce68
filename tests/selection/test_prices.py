"""From which size on which candidate is cheapest."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo import ALGORITHMS
from collalgo.algorithms.catalogue import find
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.rounds import Line
from collalgo.selection.on_host import HostPricer
from collalgo.selection.prices import Choices, LazyCandidate, Priced, breaks, prune

lines = st.builds(Line, st.floats(1e-6, 1e-3), st.floats(1e-12, 1e-8))


@given(st.lists(lines, min_size=1, max_size=8), st.floats(1, 2.0**40))
def test_what_is_looked_up_is_the_cheapest(prices, nbytes):
    rows = [Priced(row, line) for row, line in zip(ALGORITHMS, prices, strict=False)]
    found = Choices(breaks(rows)).at(nbytes).price.seconds(nbytes)
    assert found <= min(line.seconds(nbytes) for line in prices) * (1 + 1e-5)


def test_prices_that_cross_change_places_where_they_do():
    flat, steep = Line(10e-6, 1e-10), Line(1e-6, 1e-9)
    found = Choices(breaks([Priced(ALGORITHMS[0], flat), Priced(ALGORITHMS[1], steep)]))
    assert [one.nbytes for one in found.breaks] == pytest.approx([0, 1e4])
    assert found.at(9_999).price is steep
    assert found.at(10_001).price is flat


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("collective", ["allreduce", "alltoall", "broadcast"])
def test_a_communicator_looks_up_what_is_cheapest(collective, size):
    machine = HostProfile(1e-7, 2e-6, 2e-8, 3e-11, 3e-11, cores=2)
    host = HostPricer(size, machine)
    known = host.choices(collective)
    able = host.priced(host.applicable(collective)[0])
    for nbytes in (0, 8, 1000, 1 << 13, 1 << 17, 3 << 20, 1 << 26):
        best = min(float(one.price.seconds(np.array(nbytes))) for one in able)
        assert known.at(nbytes).price.seconds(np.array(nbytes)) <= best * 1.06
    assert HostPricer(size, machine).choices(collective) is known


def test_a_price_that_was_interrupted_is_found_the_next_time():
    ways = iter([1, 0, 0])

    def estimates():
        if next(ways):
            raise KeyboardInterrupt
        yield Line(2.0, 0.0)

    candidate = LazyCandidate(
        find("allreduce", "ring", 4), "", Line(1.0, 0.0), estimates
    )
    with pytest.raises(KeyboardInterrupt):
        prune([candidate])
    assert not candidate.known
    assert candidate.priced.price == Line(2.0, 0.0)
