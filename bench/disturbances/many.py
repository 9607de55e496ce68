"""Many agents that join one round: their machines in one thread, over one store."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from queue import Empty, SimpleQueue

from collalgo.bench.disturbances.members import PATIENCE, SECRET
from collalgo.bench.disturbances.trials import Trials, trial

from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.job_keys import COMMON
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.bootstrap.store.server import Server
from collalgo.elastic.events import (
    Action,
    Command,
    Delete,
    Event,
    ListProcesses,
    Seen,
)
from collalgo.elastic.link import StoreLink
from collalgo.elastic.participant import Participant, Phase
from collalgo.elastic.rounds import step
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings

#: Agents of a round.
AGENTS = 1000


class Agents:
    """Agents in one thread, which share a connection and a lease.

    Parameters
    ----------
    connect
        Connects with their store.
    size
        Their number.
    """

    def __init__(self, connect: Callable[[], KeyValueStore], size: int):
        settings = Settings(size, size)
        self.changes: SimpleQueue[Seen | Exception] = SimpleQueue()
        self.link = StoreLink(lambda _: connect(), "many", 60.0, self.changes.put)
        self.link.open(PATIENCE)
        self.states = [
            Participant(Member(f"n{i}", f"{i:04}"), settings) for i in range(size)
        ]

    def _advance(self, number: int, events: Sequence[Event]) -> None:
        """Process the events of an agent, and carry out all actions that follow."""
        while events:
            self.states[number], actions = step(self.states[number], events)
            done = [self._perform(action) for action in actions]
            events = [each for each in done if each is not None]

    def _perform(self, action: Action) -> Event | None:
        if isinstance(action, ListProcesses):
            return self.link.list_processes()
        if isinstance(action, Delete):
            return self.link.delete(action)
        return self.link.write(action)

    def _collect(self) -> list[Seen]:
        """All changes that have arrived."""
        try:
            found = [self.changes.get(timeout=PATIENCE)]
        except Empty:
            raise TimeoutError(f"no change within {PATIENCE:g} s") from None
        while not self.changes.empty():
            found.append(self.changes.get())
        for each in found:
            if isinstance(each, Exception):
                raise each
        return [each for each in found if isinstance(each, Seen)]

    def join(self) -> None:
        """Let all join a round."""
        for number in range(len(self.states)):
            self._advance(number, [Command.ASK])
        while not all(state.phase is Phase.MEMBER for state in self.states):
            found = self._collect()
            common = [seen for seen in found if seen.key.startswith(COMMON)]
            for number, state in enumerate(self.states):
                self._advance(number, found if state.leads else common)


def many() -> Trials:
    """Let 1,000 agents join a round over an embedded store: the time of each trial."""
    while True:
        with closing(Server(bytes.fromhex(SECRET), "127.0.0.1")) as server:
            key = bytes.fromhex(SECRET)
            connect = partial(Client, ["127.0.0.1"], server.port, key, PATIENCE)
            agents = Agents(connect, AGENTS)
            with closing(agents.link):
                began = time.monotonic()
                with trial() as times:
                    agents.join()
                    times.append(time.monotonic() - began)
                yield times
