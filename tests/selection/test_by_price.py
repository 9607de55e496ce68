"""Candidates by their prices: in ascending order, and few of them priced."""

import numpy as np
import pytest

from collalgo import Topology, select
from collalgo.cost.rounds import Line
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.prices import ByPrice, LazyCandidate
from collalgo.synthesis.planner import Planner


class Row:
    """What a candidate needs of an algorithm."""

    def __init__(self, base_name):
        self.base_name = base_name


def candidates(count, kinds, seed):
    """Candidates with lower bounds, and the number of those that have been priced."""
    chance, priced = np.random.default_rng(seed), []

    def one(number):
        price = chance.integers(1, 8)
        bounds = np.sort(chance.integers(0, price + 1, 3))

        def estimates():
            for bound in bounds:
                yield Line(float(bound), 0.0)
            priced.append(number)
            yield Line(float(price), 0.0)

        return LazyCandidate(Row(number % kinds), "", Line(0.0, 0.0), estimates)

    return [one(number) for number in range(count)], priced


def seconds(found):
    return [float(one.price.seconds(8.0)) for one in found]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_candidates_come_in_the_order_of_their_prices(count):
    for seed in range(10):
        some, priced = candidates(count, 3, seed)
        found = seconds(ByPrice(some, 8))
        assert found == sorted(seconds(one.priced for one in some))
        assert len(found) == len(priced) == count


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_of_each_algorithm_the_cheapest_candidate_comes(count):
    for seed in range(10):
        some, _ = candidates(count, 3, seed)
        found = [*ByPrice(some, 8).algorithms()]
        assert seconds(found) == sorted(seconds(found))
        least = {one.row.base_name: np.inf for one in some}
        for one in some:
            name = one.row.base_name
            least[name] = min(least[name], *seconds([one.priced]))
        assert {one.row.base_name: one.price.seconds(8.0) for one in found} == least


def test_what_is_not_read_needs_no_price():
    some, priced = candidates(33, 33, seed=1)
    next(iter(ByPrice(some, 8)))
    assert 0 < len(priced) < 33


def test_an_explanation_plans_nothing_that_the_choice_did_not(monkeypatch):
    pricer = TopologyPricer(Topology.load("dgx_h100"))
    chosen = select("allgather", 1 << 30, topology=pricer)
    made = []
    monkeypatch.setattr(Planner, "_planned", lambda _, key: made.append(key))
    lines = chosen.explain().splitlines()
    assert not made
    names = [one.row.base_name for one in chosen.listed(10)]
    assert len(names) == len(set(names)) == 10
    assert "  and other algorithms, variants or orders of ranks" in lines


def test_a_choice_that_is_no_candidate_hides_none():
    chosen = select("gather", 8, size=4, algorithm="linear")
    assert len(chosen.listed(10)) >= len(chosen.distinct)
    assert "  and " not in chosen.explain()
