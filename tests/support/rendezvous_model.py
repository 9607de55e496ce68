"""A model of processes in rounds: the orders of their events, and faults.

The processes are the real state machines. The store, the network and the faults are
modelled: writes of a process wait in a queue, and may be lost or carried out twice;
changes are heard of late, in the order of versions, and old ones again; a process may
crash, start again, and lose its lease while it lives (it is paused, or cut off).
"""

from typing import NamedTuple

from collalgo.bootstrap.store.job_keys import CLOSED, COMMON, NODES, NOTICE, ROUND
from collalgo.bootstrap.store.protocol import Fence
from collalgo.elastic import rounds
from collalgo.elastic.documents import Closed
from collalgo.elastic.events import (
    Command,
    Delete,
    Elapsed,
    ListProcesses,
    ProcessesListed,
    Seen,
    Write,
)
from collalgo.elastic.participant import Known, Participant, Phase
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings
from tests.support.rendezvous_properties import (
    FOR_EVER,
    STEP,
    Properties,
)


def nodes_of(world):
    """The processes whose keys are in the store."""
    for key, known in world.keys:
        if key.startswith(NODES) and known.value is not None:
            yield Seen(key, *known)


class Rules(NamedTuple):
    """What is modelled: mutants change it."""

    checks_versions: bool = True
    checks_fences: bool = True
    fences_steps: bool = True
    new_token: bool = True


#: No fault is planted.
AS_IT_IS = Rules()


class Machine(Participant):
    """A state of which the model keeps one object, so that it is equal to itself."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def key(self):
        """What distinguishes it; what it has sent follows from that."""
        return (
            self.member,
            self.phase,
            self.after,
            self.epoch,
            self.surveyed,
            min(self.waited, 1.0),
            tuple(sorted((key, *known) for key, known in self.known.items())),
        )


class Process(NamedTuple):
    """A process: its machine, what it has sent, and what has happened to it."""

    machine: Machine
    queue: tuple = ()
    alive: bool = True
    healthy: bool = True  # it has kept its lease since it started
    born: int = 0  # the epoch at its start

    @property
    def own(self):
        return NODES + self.machine.member.token


class World(NamedTuple):
    """The store, the processes, and the faults that are still to come."""

    processes: tuple
    faults: int
    asks: int
    steps: int = 1
    restarts: int = 0
    keys: tuple = ()  # pairs of a key and what it holds; versions are of the key
    done: int = 0  # steps that the store has acknowledged
    last: int = 0  # the epoch of the last step

    def get(self, key):
        return dict(self.keys).get(key, Known())


class Model(Properties):
    """The transitions of the world, and its properties."""

    def __init__(self, settings, size=3, faults=1, asks=1, rules=AS_IT_IS):
        self.settings, self.rules = settings, rules
        self.size, self.faults, self.asks = size, faults, asks
        self.notices = False  # members ask at any time, for a reason or not
        self.machines, self.stepped = {}, {}

    def start(self):
        machines = [
            self.one(Machine(Member(f"n{i}", f"{i}.0"), self.settings))
            for i in range(self.size)
        ]
        world = World(tuple(map(Process, machines)), self.faults, self.asks)
        for number in range(self.size):
            world = self.hear(world, number, Command.ASK)
        return world

    def one(self, machine):
        """The one object of a state."""
        return self.machines.setdefault(machine.key(), machine)

    def step(self, machine, events):
        """A step of a machine, which is the same each time."""
        found = self.stepped.get((machine, events))
        if found is None:
            following, actions = rounds.step(machine, events)
            found = self.stepped[machine, events] = self.one(following), actions
        return found

    # ---- steps of a process

    def hear(self, world, number, *events):
        process = world.processes[number]
        machine, actions = self.step(process.machine, events)
        queue = process.queue
        for action in actions:
            is_notice = getattr(action, "key", "") == NOTICE
            if action not in queue and (self.notices or not is_notice):
                queue += (action,)
        changed = process._replace(machine=machine, queue=queue)
        return self.put(world, number, changed)

    @staticmethod
    def put(world, number, process):
        processes = list(world.processes)
        processes[number] = process
        return world._replace(processes=tuple(processes))

    def act(self, world, number, action, keep=()):
        """Carry out the first action of a process."""
        process = world.processes[number]
        queue = (*keep, *process.queue[1:])
        world = self.put(world, number, process._replace(queue=queue))
        if isinstance(action, ListProcesses):
            return self.hear(world, number, ProcessesListed(tuple(nodes_of(world))))
        present = world.get(action.key)
        if self.rules.checks_versions and present.expected != action.version:
            return world
        if isinstance(action, Delete):
            return self.change(world, action.key, None)
        if self.rules.checks_fences and any(
            world.get(fence.key).expected != fence.version for fence in action.fences
        ):
            return world
        self.check_write(world, process, action)
        if action.key == STEP:
            epoch = action.value[0]
            world = world._replace(done=world.done + 1, last=epoch)
        return self.change(world, action.key, action.value)

    @staticmethod
    def change(world, key, value):
        version = world.get(key).version + 1
        keys = {**dict(world.keys), key: Known(version, value)}
        order = tuple((each, keys[each]) for each in sorted(keys))
        return world._replace(keys=order)

    def expire(self, world, member):
        """The store ends the lease of a member, which vanishes with its keys."""
        for key, known in world.keys:
            if getattr(known.value, "member", None) == member:
                world = self.change(world, key, None)
        return world

    @staticmethod
    def leases(world, *, of_living):
        """The members with a lease that live, or that are dead."""
        living = {each.machine.member for each in world.processes if each.alive}
        holders = {getattr(known.value, "member", None) for _, known in world.keys}
        found = holders & living if of_living else holders - living
        return sorted(found - {None})

    def watched(self, world, process):
        """The keys of which a process has not heard the last change, in any order."""
        machine = process.machine
        own, prefix = process.own, NODES if machine.surveyed else COMMON
        return [
            key
            for key, known in world.keys
            if known.version > machine.value(key).version
            and (key.startswith((COMMON, prefix)) or key == own)
        ]

    # ---- transitions

    def successors(self, world):
        for number, process in enumerate(world.processes):
            if process.alive:
                yield from self.of_process(world, number, process)
                if world.faults:
                    yield from self.faults_of(world, number, process)
            elif world.restarts:
                yield f"restart {number}", self.restart(world, number)
        for member in self.leases(world, of_living=False):
            yield f"the lease of {member} ends", self.expire(world, member)

    def of_process(self, world, number, process):
        if process.queue:
            action = process.queue[0]
            yield f"{number} {action}", self.act(world, number, action)
        for key in self.watched(world, process):
            seen = Seen(key, *world.get(key))
            yield f"{number} hears {key}", self.hear(world, number, seen)
        yield f"{number} waits", self.hear(world, number, Elapsed(1.0), Command.RETRY)
        machine = process.machine
        if machine.phase is Phase.MEMBER and world.asks:
            asked = self.hear(world, number, Command.ASK)
            yield f"{number} asks", asked._replace(asks=world.asks - 1)
        if machine.phase is Phase.OUT:
            yield f"{number} joins", self.hear(world, number, Command.ASK)
        if machine.phase is Phase.MEMBER and world.steps and not process.queue:
            yield f"{number} works", self.work(world, number, process)

    def work(self, world, number, process):
        """A member commits a step, as far as it knows the last one."""
        machine, present = process.machine, world.get(STEP)
        fences = (Fence(ROUND, machine.value(ROUND).version),)
        value = (machine.epoch, world.done + 1)
        fences = fences if self.rules.fences_steps else ()
        write = Write(STEP, value, present.expected, fences)
        world = world._replace(steps=world.steps - 1)
        return self.put(world, number, process._replace(queue=(write,)))

    def faults_of(self, world, number, process):
        """Each fault of a process by name, with the world after it."""
        # Long: a list of the faults, one after the other.
        world = world._replace(faults=world.faults - 1)
        crashed = process._replace(alive=False, queue=(), healthy=False)
        yield (
            f"{number} crashes",
            self.put(world, number, crashed)._replace(restarts=world.restarts + 1),
        )
        member = process.machine.member
        if member in self.leases(world, of_living=True):
            cut = self.put(world, number, process._replace(healthy=False))
            yield f"{number} is cut off", self.expire(cut, member)
        if process.queue:
            first, *rest = process.queue
            yield (
                f"{number} loses {first}",
                self.put(world, number, process._replace(queue=tuple(rest))),
            )
            yield (
                f"{number} twice {first}",
                self.act(world, number, first, keep=(first,)),
            )
            if rest:
                turned = process._replace(queue=(*rest, first))
                yield f"{number} reorders", self.put(world, number, turned)
        old = process.machine.value(ROUND)
        if old.version:  # it hears of the time before the round once more
            stale = Seen(ROUND, old.version - 1, None)
            yield f"{number} hears an old round", self.hear(world, number, stale)
        if world.get(CLOSED).value is None:
            yield "the job is closed", self.change(world, CLOSED, Closed("done"))

    def restart(self, world, number):
        before = world.processes[number].machine.member
        life = world.restarts if self.rules.new_token else 0
        token = f"{number}.{life}" if self.rules.new_token else before.token
        machine = self.one(Machine(Member(before.name, token), self.settings))
        present = world.get(ROUND).value
        born = present.epoch if present else 0
        process = Process(machine, born=born)
        world = self.put(world, number, process)
        world = world._replace(restarts=world.restarts - 1)
        return self.hear(world, number, Command.ASK)


SMALL = Settings(2, 3, last_call=1.0, patience=FOR_EVER)
