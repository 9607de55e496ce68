"""Plans in memory are bounded by bytes, and made again where they are needed."""

import numpy as np
import pytest

from collalgo import Topology, verify
from collalgo.base.cache import RecentlyUsed
from collalgo.cost.placement import Placement
from collalgo.synthesis import planner as planner_module
from collalgo.synthesis.planner import Form, Planner
from tests.support.host_networks import network

FORMS = [Form("trees", rounds) for rounds in (2, 4, 8, 16)]


class Counted(RecentlyUsed):
    """A cache that knows which values it made."""

    def __init__(self, most, nbytes):
        super().__init__(most, nbytes)
        self.made, self.measured = [], nbytes

    def get(self, key, make):
        return super().get(key, lambda: self.made.append(key) or make())

    @property
    def nbytes(self):
        return sum(map(self.measured, self._values.values()))


def bounded(monkeypatch, most):
    """The caches of plans with another bound."""
    monkeypatch.setenv("COLLALGO_CACHE", "off")
    of_plans = Counted(most, lambda one: one.plan.nbytes)
    of_steps = Counted(most, lambda one: one.nbytes)
    monkeypatch.setattr(planner_module, "MADE", of_plans)
    monkeypatch.setattr(planner_module, "STEPS", of_steps)
    return of_plans, of_steps


def columns(steps):
    return np.stack([*steps.plan.transfers, steps.plan.step, steps.plan.lane])


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 12])
def test_evicted_plans_are_made_again_and_are_the_same(monkeypatch, size):
    bounded(monkeypatch, 1 << 30)
    topology = network(size, seed=size)
    expected = [
        columns(Planner(Placement(topology)).steps("allgather", f)) for f in FORMS
    ]
    caches = bounded(monkeypatch, 1)
    planner = Planner(Placement(topology))
    for form, plan in [*zip(FORMS, expected, strict=True)] * 2:
        planner.price("allgather", form)
        assert (columns(planner.steps("allgather", form)) == plan).all()
    assert all(len(cache.made) == 2 * len(FORMS) for cache in caches)


def test_plans_of_many_machines_stay_within_their_bytes(monkeypatch):
    most = 1 << 20
    caches = bounded(monkeypatch, most)
    for size in (5, 7, 8, 12):
        planner = Planner(Placement(network(size, seed=size)))
        for collective in ("allgather", "broadcast"):
            for form in FORMS:
                planner.price(collective, form)
                planner.steps(collective, form)
                for cache in caches:
                    assert cache.nbytes <= most or len(cache._values) == 1
    assert all(len(cache.made) > len(cache._values) for cache in caches)


def test_a_plan_that_is_kept_is_not_made_again(monkeypatch):
    of_plans, of_steps = bounded(monkeypatch, 1 << 30)
    planner = Planner(Placement(network(5, seed=5)))
    for _ in range(3):
        for form in FORMS:
            planner.price("reduce", form)
            planner.steps("reduce", form, 3)
    assert len(of_steps.made) == len(FORMS)
    assert len(of_plans.made) == 2 * len(FORMS)


def test_ranks_of_a_symmetric_machine_need_no_transfers_of_others(monkeypatch):
    bounded(monkeypatch, 1 << 30)
    planner = Planner(Placement(Topology.load("dgx_h100", hosts=3)))
    steps = planner.steps("allgather", Form("trees", 4))
    few = steps.nbytes
    verify(steps.of, size=planner.size, collective="allgather")
    assert "plan" not in vars(steps)
    assert steps.transfers == len(steps.plan.step)
    assert steps.nbytes > 10 * few


def test_the_bytes_of_steps_are_those_of_the_plan_once_and_of_messages(monkeypatch):
    bounded(monkeypatch, 1 << 30)
    steps = Planner(Placement(network(5, seed=5))).steps("reduce", FORMS[0])
    assert steps.nbytes == steps.plan.nbytes == steps.represented.nbytes
    verify(steps.of, size=5, collective="reduce")
    assert steps.nbytes > steps.plan.nbytes


def test_planners_of_the_same_ranks_share_plans_and_others_do_not(monkeypatch):
    caches = bounded(monkeypatch, 1 << 30)
    for seed, count in ((5, 1), (5, 1), (6, 2)):
        Planner(Placement(network(5, seed=seed))).steps("reduce", FORMS[0])
        assert [len(cache.made) for cache in caches] == [count, count]
