"""Prices that a thread finds while formulas decide."""

import pytest

from collalgo.base.cache import computing
from collalgo.base.threads import ThreadRefused
from collalgo.comm import prices_ahead
from collalgo.comm.prices_ahead import PricesAhead
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import LinkModel
from collalgo.selection.decide import PRICE, Question, decisions
from collalgo.selection.on_topology import TopologyPricer
from tests.support.ranks_on_hosts import ranks_on_hosts
from tests.support.store_clients import until

MIB = 1 << 20

PROFILE = HostProfile(3e-7, 3e-6, 1e-7, 1e-10, 1e-10, cores=8)


def pricer_of(*counts):
    topology, cores, *_ = ranks_on_hosts(*counts)
    return TopologyPricer(topology, LinkModel.of_host(PROFILE), cores)


@pytest.fixture
def ahead(monkeypatch):
    monkeypatch.setattr(prices_ahead, "CALM_SECONDS", 0.0)
    return PricesAhead(pricer_of(1, 1).private_copy)


def test_prices_are_found_while_another_thread_computes(ahead):
    asked = Question("allgather", 8, by_formulas=True)
    ahead.add(asked)
    ahead.add(asked._replace(nbytes=9))
    with computing:
        assert not ahead.are_known()
        until(ahead.are_known)
    assert (
        decisions(asked._replace(by_formulas=False), ahead.pricer).at(8).decider
        == PRICE
    )
    ahead.add(asked._replace(collective="broadcast"))
    assert not ahead.are_known()
    until(ahead.are_known)


def test_no_prices_are_sought_as_long_as_ranks_recover(monkeypatch):
    monkeypatch.setattr(prices_ahead, "CALM_SECONDS", 1e9)
    ahead = PricesAhead(lambda: pytest.fail("it has begun"))
    ahead.add(Question("allgather", 8))
    assert not ahead.are_known()
    assert ahead.pricer is None


def test_prices_are_found_without_a_thread_if_none_may_be_started(ahead, monkeypatch):
    def refuse(_):
        raise ThreadRefused("planted")

    monkeypatch.setattr(prices_ahead, "start", refuse)
    ahead.add(Question("allgather", 8))
    assert not ahead.are_known()
    assert ahead.are_known()


def test_a_question_without_an_answer_does_not_stop_the_others(ahead, monkeypatch):
    monkeypatch.setenv("COLLALGO_ALLGATHER", "pairwise_of_nobody")
    ahead.add(Question("allgather", 8))
    ahead.add(Question("broadcast", 8))
    assert not ahead.are_known()
    until(ahead.are_known)


def test_what_prices_choose_is_proved_before_the_ranks_use_it(monkeypatch):
    monkeypatch.setattr(prices_ahead, "CALM_SECONDS", 0.0)
    pricer, proved = pricer_of(2, 2, 2, 2), []
    monkeypatch.setattr(pricer, "prove", lambda row, *_: proved.append(row.name))
    ahead = PricesAhead(lambda: pricer)
    asked = [Question("allgather", nbytes) for nbytes in (0, 4 * MIB)]
    for each in asked:
        ahead.add(each._replace(by_formulas=True))
    assert not ahead.are_known()
    until(ahead.are_known)
    chosen = [decisions(each, pricer).at(each.nbytes) for each in asked]
    assert proved == [each.name for each in chosen if each.unproved]
    assert proved
