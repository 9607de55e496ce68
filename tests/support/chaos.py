"""Random events that happen to a job on a cluster of namespaces.

Each host has a member of an etcd and an agent with two ranks. Events leave some ranks
that hold the last commit, and most members of etcd; so nothing may be lost.
"""

import os
import random
import re
import signal
import time
from contextlib import closing, contextmanager, suppress
from typing import ClassVar

from collalgo.bench.cluster.kernel import set_link

from tests.support.chaos_cluster import (
    HOSTS,
    PATIENCE,
    RANKS,
    Cluster,
    is_alive,
    until,
)

#: Seconds between two events, after which a paused rank goes on and a store is started.
PAUSE, STOP, STORE_BACK = (0.0, 0.6), (0.1, 4.0), (0.1, 3.0)


class Chaos:
    """Random events of a seed.

    Parameters
    ----------
    cluster
        The hosts.
    seed
        Of the random numbers.
    """

    def __init__(self, cluster, seed):
        self.cluster, self.rng = cluster, random.Random(seed)
        self.cut, self.late, self.top = None, [], 0
        self.counts = dict.fromkeys(self.EVENTS, 0)
        self.recoveries = []

    # ---- the events, each with its targets

    def losable(self, targets):
        """Those of some sets of ranks without which the last commit is still held."""
        notes = self.cluster.notes()
        self.top = max([self.top, *(note.step for note in notes)])
        holders = {note.process for note in notes if note.step >= self.top}
        return [name for name, ranks in targets.items() if holders - ranks]

    def ranks(self):
        """Each rank, as a set of its own."""
        return {n.process: {n.process} for n in self.cluster.notes()}

    def hosts(self):
        """The hosts with an agent: their ranks."""
        notes = self.cluster.notes()
        return {
            host: {note.process for note in notes if note.host == host}
            for host in self.cluster.agents
        }

    def kill(self, process):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    def stop(self, process):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
        self.later(STOP, lambda: self.resume(process))

    def resume(self, process):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)

    def cut_off(self, host):
        set_link(self.cluster.layout, f"{host}/nic0", working=False)
        self.cut = host

    def heal(self, host):
        set_link(self.cluster.layout, f"{host}/nic0", working=True)
        self.cut = None

    def leave(self, host):
        self.cluster.end(host, signal.SIGTERM)

    def kill_agent(self, host):
        ranks = self.hosts()[host]
        self.cluster.end(host, signal.SIGKILL)
        until(lambda: not any(map(is_alive, ranks)), self.cluster)

    def kill_store(self, host):
        address = self.cluster.store_of[host]
        self.cluster.stores.kill(address)
        self.dead_store = host
        self.later(STORE_BACK, lambda: self.start_store(address))

    def start_store(self, address):
        self.cluster.stores.start(address)
        self.dead_store = None

    dead_store = None

    def stores(self):
        """The hosts whose store may be killed: most stores are still reached."""
        if self.dead_store is not None:
            return []
        return self.cluster.hosts if self.cut is None else [self.cut]

    def cuttable(self):
        """The hosts that may be cut off."""
        if self.cut is not None:
            return []
        return self.cluster.hosts if self.dead_store is None else [self.dead_store]

    EVENTS: ClassVar = {
        "kill": (lambda s: s.losable(s.ranks()), kill),
        "stop": (lambda s: list(s.ranks()), stop),
        "cut": (cuttable, cut_off),
        "heal": (lambda s: [s.cut] if s.cut else [], heal),
        "join": (
            lambda s: [h for h in s.cluster.hosts if h not in s.cluster.agents],
            lambda s, host: s.cluster.start(host),
        ),
        "leave": (lambda s: s.losable(s.hosts()), leave),
        "agent killed": (lambda s: s.losable(s.hosts()), kill_agent),
        "store killed": (stores, kill_store),
    }

    # ---- their course

    def later(self, times, call):
        """Make a call after a random time."""
        self.late.append((time.monotonic() + self.rng.uniform(*times), call))

    def catch_up(self, now):
        """Make the calls whose time has come."""
        for due in [each for each in self.late if each[0] <= now]:
            self.late.remove(due)
            due[1]()

    def happen(self, count):
        """Let some events happen."""
        for _ in range(count):
            self.catch_up(time.monotonic())
            possible = {
                name: found
                for name, (targets, _) in self.EVENTS.items()
                if (found := targets(self))
            }
            name = self.rng.choice(sorted(possible))
            self.counts[name] += 1
            self.EVENTS[name][1](self, self.rng.choice(sorted(possible[name])))
            time.sleep(self.rng.uniform(*PAUSE))

    def settle(self):
        """Mend everything, and wait until all ranks are members that make steps."""
        self.catch_up(float("inf"))
        if self.cut is not None:
            self.heal(self.cut)
        for host in self.cluster.hosts:
            if host not in self.cluster.agents:
                self.cluster.start(host)
        began = time.monotonic()
        top = max([self.top, *(note.step for note in self.cluster.notes())])
        until(lambda: self.all_go_on(top), self.cluster)
        self.top = top
        self.recoveries.append(time.monotonic() - began)

    def all_go_on(self, top):
        notes = self.cluster.notes()
        size = HOSTS * RANKS
        return len(notes) == size and all(
            n.size == size and n.step > top for n in notes
        )


@contextmanager
def chaos(folder, seed):
    """The random events of a seed, for a job of which all ranks are members."""
    with closing(Cluster(folder)) as cluster:
        made = Chaos(cluster, seed)
        made.settle()
        yield made


def finish(cluster):
    """Let the job end: the exit codes of its agents, and what its ranks have left."""
    (cluster.folder / "end").touch()
    codes = [agent.wait(PATIENCE) for agent in cluster.agents.values()]
    ends = [file.read_text().split() for file in (cluster.folder / "ends").iterdir()]
    return codes, ends


def failures(output):
    """Ranks that have ended by themselves, which were to live."""
    return re.findall(r"rank \d+ ended with .*|.*Error: .*", output)
