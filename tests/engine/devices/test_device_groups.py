"""ProgramCache of grouped messages, on a network that carries them in any order."""

import numpy as np
import pytest

from collalgo import ALGORITHMS
from collalgo.engine.devices.grouped import group
from collalgo.engine.devices.operations import INBOX, Combine, Exchange
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import INPUT, OUTPUT
from collalgo.schedule import recv, send
from tests.engine.devices.test_device_programs import Chunk, cases, plans_of
from tests.engine.plan.test_lowering import plans
from tests.support.device_calls import WORD, in_place_of, world


class Network:
    """Ranks whose programs run in an order drawn by lot, and what they hold."""

    def __init__(self, programs, given, lengths, in_place, rng):
        self.programs, self.rng = programs, rng
        self.buffers = []
        for rank, program in enumerate(programs):
            source, taken = given[rank].copy(), np.full(lengths[rank], 77, WORD)
            if in_place is not None:
                target = in_place(rank)
                start = -min(0, target)
                room = np.full(start + max(len(source), target + len(taken)), 77, WORD)
                room[start : start + len(source)] = source
                source = room[start:]
                taken = room[start + target :]
            rest = program.scratch_bytes, program.inbox_bytes
            self.buffers.append([source, taken, *(np.full(n // 8, 77) for n in rest)])
        self.on_the_way = {}

    def words(self, place, nbytes):
        assert nbytes > 0
        first = place.at // 8
        found = self.buffers[place.rank][place.buffer][first : first + nbytes // 8]
        assert found.nbytes == nbytes, "beyond the end of a buffer"
        return found

    def run(self):
        steps = [iter(program.operations) for program in self.programs]
        waiting = [None] * len(steps)
        able = set(range(len(steps)))
        for _ in range(100_000):
            if not able:
                assert not any(self.on_the_way.values())
                return
            rank = int(self.rng.choice(sorted(able)))
            if waiting[rank]:
                if self.receive(rank, waiting[rank]):
                    waiting[rank] = None
            elif (operation := next(steps[rank], None)) is None:
                able.remove(rank)
            elif isinstance(operation, Exchange):
                self.begin(rank, operation)
                waiting[rank] = list(operation.receives)
            else:
                self.combine(rank, operation)
        raise AssertionError("ranks wait for each other")

    def begin(self, rank, exchange):
        """Send; nothing that is received may be what is sent, or be received twice."""
        touched = [self.words(t.place, t.nbytes) for t in exchange.receives]
        for i, one in enumerate(touched):
            assert not any(np.shares_memory(one, other) for other in touched[:i])
        for transfer in exchange.sends:
            words = self.words(transfer.place, transfer.nbytes)
            assert not any(np.shares_memory(words, other) for other in touched)
            key = rank, transfer.peer
            self.on_the_way.setdefault(key, []).append(words.copy())

    def receive(self, rank, transfers):
        for transfer in list(transfers):
            queue = self.on_the_way.get((transfer.peer, rank))
            if queue:
                words = self.words(transfer.place, transfer.nbytes)
                words[...] = queue.pop(0)
                transfers.remove(transfer)
            else:
                return False
        return True

    def combine(self, rank, operation):
        target, sources, nbytes, divide = operation
        assert target.rank == rank
        assert {place.rank for place in sources} == {rank}
        parts = [self.words(place, nbytes) for place in sources]
        total = sum(parts[1:], parts[0].copy())
        self.words(target, nbytes)[...] = (
            total // len(self.programs) if divide else total
        )


def grouped(*case):
    return group(plans_of(*case))


@pytest.mark.parametrize(
    "row", list(ALGORITHMS), ids=lambda r: f"{r.collective}-{r.name}"
)
def test_every_algorithm_is_right_in_groups(row):
    rng = np.random.default_rng(30)
    for size, root, block, op in cases(row, (1, 2, 3, 5, 8)):
        programs = grouped(row, size, root, block, op)
        assert programs is not None, "groups wait in a cycle"
        given, expected = world(row.collective, size, root, block, rng)
        for in_place in {None, in_place_of(row.collective, size, block)}:
            lengths = [0 if e is None else len(e) for e in expected]
            network = Network(programs, given, lengths, in_place, rng)
            network.run()
            for rank, result in enumerate(expected):
                if result is not None:
                    result = result // size if op == "avg" else result
                    found = network.buffers[rank][OUTPUT][: len(result)]
                    np.testing.assert_array_equal(found, result)


def test_what_is_only_put_in_its_place_is_received_there():
    row = next(r for r in ALGORITHMS if (r.collective, r.name) == ("allgather", "ring"))
    for program in grouped(row, 8, 0, 7, None):
        assert program.inbox_bytes == 0
        places = [
            transfer.place.buffer
            for operation in program.operations
            if isinstance(operation, Exchange)
            for transfer in operation.receives
        ]
        assert set(places) == {OUTPUT}


def test_what_is_reduced_goes_by_the_inbox():
    row = next(r for r in ALGORITHMS if (r.collective, r.name) == ("allreduce", "ring"))
    for program in grouped(row, 4, 0, 100, "sum"):
        assert program.inbox_bytes == 1024  # one block, to the next place for one
        reduced = [o for o in program.operations if isinstance(o, Combine)]
        assert any(place.buffer == INBOX for o in reduced for place in o.sources)
        assert any(place.buffer == INPUT for o in reduced for place in o.sources)


def test_groups_that_would_wait_in_a_circle_are_none():
    """Each rank sends in its first step what the other receives in its second."""
    x, y = (Chunk(i, i + 1, 2) for i in range(2))

    def crossed(group):
        mine, other = (x, y) if group.rank == 0 else (y, x)
        yield (send(1 - group.rank, (mine,)),)
        yield (recv(1 - group.rank, (other,)),)

    assert group(plans(crossed, Layout(8, 8, 2))) is None
