"""What must hold in every state of the model of processes in rounds."""

from collalgo.bootstrap.store.job_keys import CLOSED, ROUND
from collalgo.elastic.events import Command, Elapsed, Seen
from collalgo.elastic.participant import Phase

#: The key of the work that members commit, one step after the other.
STEP = "step"

#: Rounds of the fair schedule after which the job must have settled.
FAIR_ROUNDS = 40

#: A patience that no exploration exceeds.
FOR_EVER = 1e9


class Violation(AssertionError):
    """A property does not hold, with the events that lead there."""


class Properties:
    """The safety and the liveness of a model, which has the transitions."""

    # ---- safety

    def check_write(self, world, writer, write):
        if write.key == ROUND:
            self.check_round(world, write.value)
        if write.key == STEP:
            epoch, number = write.value
            present = world.get(ROUND).value
            require(epoch == present.epoch, f"a step of {epoch} in {present.epoch}")
            require(epoch >= world.last, "a step of an earlier epoch")
            require(number == world.done + 1, "a step was lost")

    def check_round(self, world, new):
        old = world.get(ROUND).value
        epoch, members = (old.epoch, old.members) if old else (0, ())
        settings = self.settings
        require(new.epoch == epoch + 1, f"epoch {new.epoch} follows {epoch}")
        require(world.get(CLOSED).value is None, "a round of a closed job")
        require(settings.least <= len(new.members) <= settings.most, "its size")
        kept = [member for member in new.members if member in members]
        require(kept == [m for m in members if m in kept], "ranks have moved")
        for process in world.processes:
            self.check_part(process, new, epoch, members)

    def check_part(self, process, new, epoch, members):
        machine = process.machine
        if not (process.alive and process.healthy):
            return
        if machine.member in new.members:
            asks = machine.phase is Phase.ASKING and machine.after >= epoch
            require(asks, f"{machine.member} has not asked")
        elif machine.member in members and self.settings.patience == FOR_EVER:
            is_at_work = machine.phase is Phase.MEMBER and machine.epoch == epoch
            require(not is_at_work, f"{machine.member} was healthy and is left out")

    def check(self, world):
        """What must hold in each state."""
        for process in world.processes:
            machine = process.machine
            if machine.phase is not Phase.MEMBER:
                continue
            require(machine.epoch == machine.round.epoch, "it knows a later epoch")
            require(machine.epoch > process.born, "an epoch before its start")
            require(machine.member in machine.round.members, "it is no member")
            present = world.get(ROUND)
            if present.value is not None and machine.epoch == present.value.epoch:
                require(machine.round == present.value, "two sides of an epoch")

    # ---- liveness

    def check_settles(self, world):
        """Under a fair schedule, without further faults, all become members."""
        if world.get(CLOSED).value is None:
            self.notices = True  # now they ask for a reason
            try:
                self.run_fairly(world)
            finally:
                self.notices = False

    def run_fairly(self, world):
        for _ in range(FAIR_ROUNDS):
            before = world
            for number in range(self.size):
                world = self.fair_turn(world, number)
            if self.is_settled(world) and world.keys == before.keys:
                return
        raise Violation(f"the job does not settle: {world}")

    def formed(self):
        """The world in which all are members of the first epoch."""
        world = self.start()
        for _ in range(FAIR_ROUNDS):
            for number in range(self.size):
                world = self.fair_turn(world, number)
            if self.is_settled(world):
                return world
        raise Violation(f"the job does not settle: {world}")

    def fair_turn(self, world, number):
        process = world.processes[number]
        if not process.alive:
            return self.restart(world._replace(restarts=2), number)
        while world.processes[number].queue:
            world = self.act(world, number, world.processes[number].queue[0])
        while waiting := self.watched(world, world.processes[number]):
            for key in waiting:
                world = self.hear(world, number, Seen(key, *world.get(key)))
        for member in self.leases(world, of_living=False):
            world = self.expire(world, member)
        return self.fair_end(world, number)

    def fair_end(self, world, number):
        """Wait, and ask where a notice says that the members have to meet again."""
        machine = world.processes[number].machine
        is_due = machine.notice.is_failure or machine.notice.waiting
        if machine.phase is Phase.OUT or (machine.phase is Phase.MEMBER and is_due):
            world = self.hear(world, number, Command.ASK)
        return self.hear(world, number, Elapsed(1.0), Command.RETRY)

    def is_settled(self, world):
        """Whether as many as have places are members of the present epoch."""
        present = world.get(ROUND).value
        machines = [process.machine for process in world.processes]
        inside = [
            machine
            for machine in machines
            if present is not None
            and machine.phase is Phase.MEMBER
            and machine.epoch == present.epoch
        ]
        return len(inside) == min(self.size, self.settings.most)


def require(holds, what):
    if not holds:
        raise Violation(what)
