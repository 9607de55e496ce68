"""A thousand agents join one round: their machines, over one real store."""

import time
from queue import SimpleQueue

import pytest

from collalgo.elastic.documents import COMMON
from collalgo.elastic.events import Command, Delete, ListProcesses
from collalgo.elastic.link import StoreLink
from collalgo.elastic.participant import Participant, Phase
from collalgo.elastic.rounds import step
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings
from tests.support.store_clients import DEADLINE

pytestmark = pytest.mark.deadline


class Agents:
    """Agents in one thread, which share a connection and a lease."""

    def __init__(self, connect, size):
        settings = Settings(size, size)
        self.changes = SimpleQueue()
        self.link = StoreLink(lambda lost: connect(), "many", 60.0, self.changes.put)
        self.link.open(DEADLINE)
        self.states = [
            Participant(Member(f"n{i}", f"{i:04}"), settings) for i in range(size)
        ]

    def advance(self, number, events):
        while events:
            self.states[number], actions = step(self.states[number], events)
            done = [self.perform(action) for action in actions]
            events = [each for each in done if each is not None]

    def perform(self, action):
        if isinstance(action, ListProcesses):
            return self.link.list_processes()
        is_deletion = isinstance(action, Delete)
        return self.link.delete(action) if is_deletion else self.link.write(action)

    def collect(self):
        """All changes that have arrived."""
        found = [self.changes.get(timeout=DEADLINE)]
        while not self.changes.empty():
            found.append(self.changes.get())
        return found

    def join(self):
        for number in range(len(self.states)):
            self.advance(number, [Command.ASK])
        while not all(state.phase is Phase.MEMBER for state in self.states):
            found = self.collect()
            common = [seen for seen in found if seen.key.startswith(COMMON)]
            for number, state in enumerate(self.states):
                events = found if state.leads else common
                self.advance(number, events)


@pytest.mark.parametrize("size", [33, pytest.param(1000, marks=pytest.mark.slow)])
def test_many_agents_join_one_round(connect, size):
    agents = Agents(connect, size)
    began = time.monotonic()
    agents.join()
    print(f"{size} agents have joined in {time.monotonic() - began:.2f} s")
    rounds = {state.value(COMMON + "round").version for state in agents.states}
    assert len(rounds) == 1
    assert {state.round.epoch for state in agents.states} == {1}
    assert len(agents.states[0].round.members) == size
    agents.link.close()
