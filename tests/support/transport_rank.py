"""A rank of a transport's test: what it sends and expects."""

import time
from pathlib import Path

import numpy as np

from collalgo._kernels.engine.program import RUN_DONE, Program
from collalgo.engine.plan.layout import Layout, Region
from collalgo.engine.plan.lowering import Averaging, Lowering
from collalgo.engine.plan.template import grid_of
from collalgo.engine.reduction import reduction
from collalgo.schedule import Chunk, Kind, Transfer

#: Bytes of a message: none, one, around a cache line, an inline message, a slot, a
#: packet between hosts, and more than any buffer of a transport.
SIZES = (0, 1, 3, 63, 65, 88, 89, 4095, 4097, 32_769, 65_537, 131_073, (5 << 20) + 1)


#: Seconds for whatever must succeed, and for what must time out.
ENOUGH, SHORT = 60, 0.5


#: Calls before a failure. An engine connects two ranks at their first messages, which
#: takes polls of both: a rank that makes only one call could leave the others waiting.
BEFORE = 3


class Rank:
    """A rank of a world, with files to signal the other ranks outside its transport.

    Parameters
    ----------
    transport
        The transport of the rank.
    folder
        The folder of the files.
    left
        Called with a rank that has left and the number of its calls, for transports
        that learn it from outside.
    hosts
        The number of the host of each rank; none if all are on one.
    """

    def __init__(self, transport, folder, left=lambda rank, completed: None, hosts=()):
        self.transport = transport
        self.rank, self.size = transport.rank, transport.size
        self.folder = Path(folder)
        self.left, self.hosts = left, hosts

    def signal(self, name):
        (self.folder / f"{name}.{self.rank}").touch()

    def wait_for(self, name, rank):
        deadline = time.monotonic() + ENOUGH
        while not (self.folder / f"{name}.{rank}").exists():
            assert time.monotonic() < deadline, f"rank {rank} never signalled {name}"
            time.sleep(0.001)

    def call(self, steps, buffer, timeout=ENOUGH, counts=None):
        """Run steps in place on a buffer of bytes; return the status of the run.

        With counts of bytes, chunks begin exactly at blocks, not at cache lines.
        """
        steps = [tuple(step) for step in steps]
        layout = Layout(len(buffer), 1, len(counts or range(self.size)), counts)
        grid = grid_of(steps, layout.blocks)
        whole = Region([grid.whole])
        lowering = Lowering(grid, self.rank, self.size, whole, whole, hosts=self.hosts)
        template = lowering.lower(steps, Averaging.NO)
        record = (len(buffer) + 1, 0, 0, 0, 0, len(buffer), "scenario")
        program = Program(template, reduction(np.dtype(np.uint8), "sum"), 0, record)
        program.fill_layout(layout)
        scratch = np.empty(program.scratch_bytes, np.uint8)
        return program.run(self.transport, buffer, buffer, scratch, timeout)

    def exchange(self, nbytes, lanes=1, timeout=ENOUGH):
        """Exchange a message with every peer on each of some lanes, in one step."""
        mine = range(self.rank * lanes, (self.rank + 1) * lanes)
        parts = self.size * lanes
        buffer = np.zeros(parts * nbytes, np.uint8)
        for part in mine:
            buffer[part * nbytes :][:nbytes] = pattern(part, nbytes)
        step = []
        for peer in self.peers():
            for lane in range(lanes):
                there = peer * lanes + lane
                step.append(transfer(Kind.SEND, peer, mine[lane], parts, lane))
                step.append(transfer(Kind.RECV, peer, there, parts, lane))
        status = self.call([step], buffer, timeout, (nbytes,) * parts)
        if status == RUN_DONE:
            for part in range(parts):
                expect(buffer[part * nbytes :][:nbytes], pattern(part, nbytes))
        return status

    def succeed(self, *arguments, **options):
        """An exchange that must succeed."""
        status = self.exchange(*arguments, **options)
        assert status == RUN_DONE, self.transport.failure()

    def connect(self):
        """The calls before a failure."""
        for _ in range(BEFORE):
            self.succeed(10)

    def peers(self):
        return [rank for rank in range(self.size) if rank != self.rank]


def transfer(kind, peer, part, parts, lane=0):
    return Transfer(kind, peer, (Chunk(part, part + 1, parts),), lane)


def pattern(seed, nbytes):
    """Bytes that differ from part to part and from place to place; a new array."""
    period = ((np.arange(251) * 31 + seed * 7) % 251).astype(np.uint8)
    return np.resize(period, nbytes)


def expect(found, wanted):
    assert np.array_equal(found, wanted), "wrong bytes"
