"""Choices by formulas, for calls that do not wait for prices."""

from itertools import pairwise

import pytest

from collalgo.algorithms.catalogue import candidates
from collalgo.algorithms.literature import FORMULAS, values_at
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import TCP_EFFICIENCY, TCP_LATENCY, LinkModel
from collalgo.selection.decide import FORMULA, PRICE, Question, decisions
from collalgo.selection.first_choices import LONGEST
from collalgo.selection.on_host import HostPricer
from collalgo.selection.on_topology import TopologyPricer
from tests.support.ranks_on_hosts import SPEED, ranks_on_hosts

PROFILE = HostProfile(3e-7, 3e-6, 1e-7, 1e-10, 1e-10, cores=8)

COLLECTIVES = ["allreduce", "allgather", "broadcast", "alltoall", "reduce_scatter"]


def pricer_of(*counts):
    """The prices of some ranks on each host."""
    topology, cores, *_ = ranks_on_hosts(*counts)
    return TopologyPricer(topology, LinkModel.of_host(PROFILE), cores)


def seconds(row, size, per_host, nbytes):
    """The time by the formulas, as one reads them."""
    formula, names = FORMULAS[row.collective, row.name], values_at(row, size)
    rounds, volume = (
        eval(each, {}, names) for each in (formula.rounds, formula.volume)
    )
    beta = per_host / (SPEED * 1e9 * TCP_EFFICIENCY)
    return rounds * TCP_LATENCY + volume * nbytes * beta


def is_known(row):
    formula = FORMULAS.get((row.collective, row.name))
    return formula and formula.rounds and formula.volume and not formula.differs


def rivals(collective, size):
    """The algorithms that formulas decide between."""
    rows = [row for row in candidates(collective) if row.obstacle(size) is None]
    found = [row for row in rows if is_known(row)]
    assert len(found) > 3
    return found


@pytest.mark.parametrize("ranks", [(2, 2, 2, 2), (1, 2, 2, 2), (3, 1)])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_algorithm_of_the_shortest_time_by_its_formula_is_chosen(ranks, collective):
    able, where = rivals(collective, sum(ranks)), (sum(ranks), max(ranks))
    choices, limit = pricer_of(*ranks).first_choices(collective, False)
    borders = [*choices.borders, limit]
    assert borders[0] == 0
    assert all(less < more for less, more in pairwise(borders))
    for nbytes in [0, *(2**k for k in range(30)), *(0.99 * each for each in borders)]:
        chosen = [b.candidate.row for b in choices.breaks if b.nbytes <= nbytes][-1]
        best = min(seconds(row, *where, nbytes) for row in able)
        if nbytes < limit:
            assert seconds(chosen, *where, nbytes) == pytest.approx(best)
            assert best <= LONGEST
    last = choices.breaks[-1].candidate.row
    assert seconds(last, *where, limit) == pytest.approx(LONGEST)


def test_prices_decide_on_long_calls_and_where_no_formula_is_known():
    pricer, asked = pricer_of(2, 2), Question("allreduce", 8)
    first = decisions(asked._replace(by_formulas=True), pricer)
    long = int(pricer.first_choices("allreduce", False)[1]) + 1
    assert (first.at(8).decider, first.at(long).decider) == (FORMULA, PRICE)
    assert first.at(long).name == decisions(asked, pricer).at(long).name
    barrier = decisions(Question("barrier", 0, by_formulas=True), pricer)
    assert barrier.at(0).decider == PRICE
    on_host = decisions(asked._replace(by_formulas=True), HostPricer(2, PROFILE))
    assert on_host.at(8).decider == PRICE


def test_the_environment_and_the_order_of_ranks_bind_formulas_too(monkeypatch):
    pricer = pricer_of(1, 2)
    kept, _ = pricer.first_choices("allreduce", True)
    assert kept.breaks
    assert all(b.candidate.row.keeps_rank_order for b in kept.breaks)
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "ring")
    found = decisions(Question("allreduce", 8, by_formulas=True), pricer).at(8)
    assert found.name.startswith("ring")


def test_a_pricer_alone_has_the_same_ranks_and_prices_of_its_own():
    pricer = pricer_of(1, 2)
    alone = pricer.private_copy()
    assert alone.placement.digest == pricer.placement.digest
    question = Question("allgather", 8)
    assert (
        decisions(question, alone).at(8).name == decisions(question, pricer).at(8).name
    )
    assert alone.choices("allgather") is not pricer.choices("allgather")
