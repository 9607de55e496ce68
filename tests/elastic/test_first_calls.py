"""The first calls of an epoch are decided by formulas, later ones by prices."""

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np

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
    call, found = Call("broadcast", np.dtype(float), LENGTH), FORMULA
    while found == FORMULA:
        decision = programs._decision(call)
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
