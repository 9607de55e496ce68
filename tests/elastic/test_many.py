"""Many agents join one round: their machines, over one real store."""

import pytest
from collalgo.bench.disturbances.many import AGENTS, Agents

from collalgo.bootstrap.store.job_keys import COMMON

pytestmark = pytest.mark.deadline


@pytest.mark.parametrize("size", [33, pytest.param(AGENTS, marks=pytest.mark.slow)])
def test_many_agents_join_one_round(connect, size):
    agents = Agents(connect, size)
    agents.join()
    rounds = {state.value(COMMON + "round").version for state in agents.states}
    assert len(rounds) == 1
    assert {state.round.epoch for state in agents.states} == {1}
    assert len(agents.states[0].round.members) == size
    agents.link.close()
