"""Programs of devices on streams that stand for theirs, in any order that flags allow.

Every read and write is checked: it must come after the writes that it needs, and before
or after all others of the same bytes, by the flags alone (vector clocks). Nothing here
waits on the host: an operation is begun only when the stream comes to it.
"""

from collections import defaultdict

import numpy as np
import pytest

from collalgo import ALGORITHMS
from collalgo.comm.program_cache import ProgramCache
from collalgo.engine.call import Call
from collalgo.engine.devices import program as device_program
from collalgo.engine.devices.operations import (
    OUTBOX,
    Clear,
    Combine,
    Place,
    Signal,
    Wait,
)
from collalgo.engine.devices.program import lower
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import INPUT, OUTPUT, SCRATCH
from collalgo.schedule import recv, send
from collalgo.schedule.chunk import Chunk
from tests.engine.plan.test_lowering import plans
from tests.support.device_calls import WORD, in_place_of, world

ROOTED = ("reduce", "broadcast", "gather", "scatter")


class Memory:
    """What a rank holds, by word, with who has written and read each word and when."""

    def __init__(self, size, words):
        self.data = np.full(words, 77, WORD)
        self.writer = np.full(words, -1)
        self.written = np.zeros(words, int)
        self.read = np.zeros((words, size), int)


class Streams:
    """The streams of all ranks, which go on in an order drawn by lot."""

    def __init__(self, programs, inputs, outputs, in_place, rng):
        size = len(programs)
        self.programs, self.rng = programs, rng
        self.clocks = np.zeros((size, size), int)
        self.flags = defaultdict(int)
        self.seen = {}
        self.memories, self.bases = [], []
        for program, given, taken in zip(programs, inputs, outputs, strict=True):
            lengths = [len(given), taken, program.scratch_bytes // 8]
            bases = np.cumsum([0, *lengths])
            if in_place is not None:
                bases[OUTPUT] = in_place(len(self.bases))
                bases[INPUT], bases[SCRATCH:] = 0, bases[SCRATCH:]
                bases[INPUT] = -min(0, bases[OUTPUT])
                bases[OUTPUT] += bases[INPUT]
            memory = Memory(size, bases[OUTBOX] + program.outbox_bytes // 8 + 64)
            memory.data[bases[INPUT] : bases[INPUT] + len(given)] = given
            memory.first = memory.data.copy()
            self.memories.append(memory)
            self.bases.append(bases)

    def run(self, times=3):
        """Run the programs, and replay them without a word between the ranks."""
        places = [0] * len(self.programs)
        left = [times] * len(self.programs)
        able = {r for r, p in enumerate(self.programs) if p.operations}
        while able:
            ready = [
                r for r in able if self.may(self.programs[r].operations[places[r]])
            ]
            assert ready, "all streams wait for each other"
            rank = ready[self.rng.integers(len(ready))]
            self.do(rank, self.programs[rank].operations[places[rank]])
            places[rank] += 1
            if places[rank] == len(self.programs[rank].operations):
                places[rank], left[rank] = 0, left[rank] - 1
                memory = self.memories[rank]
                self.user_writes(rank, memory.first if left[rank] else memory.data)
                if not left[rank]:
                    able.remove(rank)
        assert not any(self.flags.values()), "flags are not as they were"

    def user_writes(self, rank, data):
        """What comes next on its stream, of the user or a call, may write over all."""
        self.clocks[rank, rank] += 1
        start = Place(rank, INPUT, -8 * int(self.bases[rank][INPUT]))
        self.writes(rank, start, data.copy())

    def may(self, operation):
        return (
            not isinstance(operation, Wait)
            or self.flags[operation.flag] >= operation.number
        )

    def do(self, rank, operation):
        clock = self.clocks[rank]
        clock[rank] += 1
        match operation:
            case Signal(flag, number):
                assert number == self.flags[flag] + 1, "a flag goes up one by one"
                assert rank == (flag.sender if flag.ready else flag.receiver)
                self.flags[flag], self.seen[flag, number] = number, clock.copy()
            case Wait(flag, number):
                assert rank == (flag.receiver if flag.ready else flag.sender)
                np.maximum(clock, self.seen[flag, number], out=clock)
            case Clear(flag):
                assert rank == (flag.receiver if flag.ready else flag.sender)
                self.flags[flag] = 0
            case Combine(target, sources, nbytes, divide):
                assert target.rank == rank
                parts = [self.reads(rank, place, nbytes) for place in sources]
                total = sum(parts[1:], parts[0].copy())
                self.writes(
                    rank, target, total // len(self.programs) if divide else total
                )

    def words(self, place, nbytes):
        assert nbytes > 0
        assert nbytes % 8 == place.at % 8 == 0
        first = self.bases[place.rank][place.buffer] + place.at // 8
        return self.memories[place.rank], slice(first, first + nbytes // 8)

    def reads(self, rank, place, nbytes):
        memory, words = self.words(place, nbytes)
        self.after_writes(rank, memory, words)
        memory.read[words, rank] = self.clocks[rank, rank]
        return memory.data[words]

    def writes(self, rank, place, values):
        memory, words = self.words(place, values.nbytes)
        self.after_writes(rank, memory, words)
        late = memory.read[words] > self.clocks[rank]
        assert not late.any(), "what somebody may still read is written over"
        memory.writer[words], memory.written[words] = rank, self.clocks[rank, rank]
        memory.data[words] = values

    def after_writes(self, rank, memory, words):
        writer, time = memory.writer[words], memory.written[words]
        early = (writer >= 0) & (time > self.clocks[rank][writer])
        assert not early.any(), "what is not yet written is read, or written over"

    def output(self, rank, words):
        first = self.bases[rank][OUTPUT]
        return self.memories[rank].data[first : first + words]


def plans_of(row, size, root, block, op):
    """What all ranks do in a call with a number of words in each block."""
    words = size * block
    if row.collective in ("allgather", "gather", "scatter"):
        words = block
    elif row.collective == "barrier":
        words = 0
    call = Call(row.collective, WORD, words, op, root, row.name).plain()
    return ProgramCache(0, size, None).plans(call)


def programs_of(*case):
    return lower(plans_of(*case))


def cases(row, sizes):
    """Ranks, root, words a block and op of calls that an algorithm can make."""
    for size in sizes:
        if row.obstacle(size) is None:
            last = size - 1 if row.collective in ROOTED else 0
            yield size, 0, 1, "sum"
            yield size, last, 7, "avg" if row.collective == "allreduce" else "sum"


@pytest.mark.parametrize(
    "sizes", [(1, 2, 3, 5, 8), pytest.param((4, 12), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "row", list(ALGORITHMS), ids=lambda r: f"{r.collective}-{r.name}"
)
def test_every_algorithm_is_right_on_streams(row, sizes):
    rng = np.random.default_rng(14)
    for size, root, block, op in cases(row, sizes):
        programs = programs_of(row, size, root, block, op)
        given, expected = world(row.collective, size, root, block, rng)
        for in_place in {None, in_place_of(row.collective, size, block)}:
            lengths = [0 if e is None else len(e) for e in expected]
            streams = Streams(programs, given, lengths, in_place, rng)
            streams.run(times=3 if block > 1 else 1)
            for rank, result in enumerate(expected):
                if result is not None:
                    result = result // size if op == "avg" else result
                    found = streams.output(rank, len(result))
                    np.testing.assert_array_equal(found, result)


def circle(group):
    """Rank 1 reads what rank 0 sends only after what rank 0 must do before: rank 2's.

    Rank 0 writes over what it has sent to rank 1 before it sends to rank 2, which has
    to send to rank 1 first of all.
    """
    x, y, z = (Chunk(i, i + 1, 3) for i in range(3))
    steps = {
        0: [(send(1, (x,)),), (recv(3, (x,)),), (send(2, (y,)),)],
        1: [(recv(2, (z,)), recv(0, (x,)))],
        2: [(recv(0, (y,)),), (send(1, (z,)),)],
        3: [(send(0, (x,)),)],
    }
    yield from steps[group.rank]


def test_who_would_wait_in_a_circle_sends_copies():
    lowered = plans(circle, Layout(12, 8, 4))
    patient = device_program._programs(lowered, patient=True)
    assert not device_program._ends([p.operations for p in patient])
    programs = lower(lowered)
    assert programs[0].outbox_bytes > 0
    given = [np.arange(12) + 100 * rank for rank in range(4)]
    streams = Streams(programs, given, [12] * 4, lambda _: 0, np.random.default_rng(15))
    streams.run()
    assert streams.output(1, 12)[[0, 8]].tolist() == [0, 208]
    assert streams.output(0, 12)[0] == 300


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("name", ["ring", "recursive_doubling", "halving_doubling"])
def test_without_its_flags_a_program_is_caught(name, ready):
    """The stand-in sees it when nobody waits for what is read, or for who reads."""
    row = next(r for r in ALGORITHMS if (r.collective, r.name) == ("allreduce", name))
    rng = np.random.default_rng(16)
    programs = [
        p._replace(
            operations=[
                o
                for o in p.operations
                if not (isinstance(o, Wait) and o.flag.ready is ready)
            ]
        )
        for p in programs_of(row, 8, 0, 7, "sum")
    ]
    given, _ = world("allreduce", 8, 0, 7, rng)
    found = r"not yet written|somebody may still read"
    with pytest.raises(AssertionError, match=found):
        for _ in range(50):
            Streams(programs, given, [56] * 8, lambda _: 0, rng).run()
