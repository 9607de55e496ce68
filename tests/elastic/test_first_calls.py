"""The first calls of an epoch are decided by formulas, later ones by prices."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from collalgo import elastic
from collalgo.comm import prices_ahead
from collalgo.comm.prices_ahead import PricesAhead
from collalgo.elastic import State
from collalgo.engine.call import Call
from collalgo.selection.decide import FORMULA, PRICE
from tests.support.ranks_on_hosts import ranks_on_hosts
from tests.support.store_clients import DEADLINE

#: The step in which the last member may learn prices.
LATE_STEP = 5

#: Elements of an array that prices send in another way than formulas.
LENGTH = 8192

CALL = Call("broadcast", np.dtype(float), LENGTH)


@elastic.run
def train(comm, state, deciders, may_price):
    """Note who decides on a call at each step; one member learns prices late."""
    shared = comm._runner.context.shared
    programs = comm._runner.programs
    programs.replan(lambda: ranks_on_hosts(1, 2))
    programs.begin_by_formulas()
    if comm.rank == 1:
        alone = programs.pricer.private_copy
        programs._ahead = PricesAhead(lambda: may_price.wait(DEADLINE) and alone())
    found = FORMULA
    while found == FORMULA:
        decision = programs._decision(CALL)
        found = decision.decider
        deciders[state.step].add((found, decision.name))
        comm.broadcast(np.ones(LENGTH))
        assert shared.call(comm.rank)["algorithm"] == decision.name
        state.step += 1
        if state.step == LATE_STEP:
            may_price.set()
        state.commit()


def test_prices_decide_from_the_commit_on_at_which_all_members_know_them(
    meet, monkeypatch
):
    monkeypatch.setattr(prices_ahead, "CALM_SECONDS", 0.0)
    deciders, may_price = defaultdict(set), Event()

    def member(number):
        state, comm = State(step=0), elastic.connect(meet(f"n{number}"), DEADLINE)
        train(state, deciders, may_price, comm=comm)
        return state.step

    with ThreadPoolExecutor(3) as pool:
        (steps,) = set(pool.map(member, range(3), timeout=60))
    assert steps > LATE_STEP
    ((decider, name),) = deciders.pop(steps - 1)
    assert decider == PRICE
    ((decider, name_before),) = set().union(*deciders.values())
    assert decider == FORMULA
    assert name_before != name


@elastic.run
def decider_of_training(comm, _state):
    """Who decides on calls as a training begins."""
    return comm._runner.programs._decision(CALL).decider


@elastic.run
def sum_without_commits(comm, state):
    """Make sums until prices decide: the number of the first one that they do."""
    while comm._runner.programs._decision(CALL).decider == FORMULA:
        assert elastic.sum_shards(comm, 8, lambda _: np.ones(2))[0] == 8
        state.step += 1
        assert state.step < 10_000
    return state.step


def on_two_hosts(meet, train, commits):
    """What members of two hosts return that have made some commits."""

    def member(number):
        state, comm = State(step=0), elastic.connect(meet(f"n{number}"), DEADLINE)
        comm._runner.programs.replan(lambda: ranks_on_hosts(1, 2))
        for _ in range(commits):
            state.commit()
        return train(state, comm=comm)

    with ThreadPoolExecutor(3) as pool:
        return [*pool.map(member, range(3), timeout=60)]


@pytest.mark.parametrize(("commits", "decider"), [(0, PRICE), (1, FORMULA)])
def test_prices_decide_where_no_commit_may_follow(meet, commits, decider):
    assert on_two_hosts(meet, decider_of_training, commits) == [decider] * 3


def test_prices_decide_after_a_sum_without_a_commit(meet, monkeypatch):
    monkeypatch.setattr(prices_ahead, "CALM_SECONDS", 0.0)
    first, *others = on_two_hosts(meet, sum_without_commits, commits=1)
    assert first > 0
    assert others == [first] * 2
