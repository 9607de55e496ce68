"""Translate a program of MSCCL to an execution plan of MSCCL++.

A message becomes a put and a signal, and its receive a wait. A block waits for another
block of its GPU by a semaphore.
"""

from collections import defaultdict
from itertools import count

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.msccl import chunks_of
from collalgo.integrations.msccl.program import (
    Block,
    Connection,
    Instruction,
    Message,
    Position,
    Program,
    messages,
)
from collalgo.integrations.mscclpp.arrivals import Arrival, arrivals
from collalgo.integrations.mscclpp.plan import Channel, Operation, Plan, Span
from collalgo.integrations.mscclpp.threads import Threads

#: The most semaphores of one operation, which is a limit of MSCCL++.
MOST = 16


class Put:
    """A message: its ends, its channel, and the chunks where it arrives."""

    def __init__(self, message: Message, how: Arrival, channel: Channel, target: Span):
        self.message, self.how = message, how
        self.channel, self.target = channel, target


class PlanWriter:
    """Writes a program as a plan.

    Parameters
    ----------
    program
        The program, of which each block has one connection at most.
    channel
        The type of all channels.
    """

    def __init__(self, program: Program, channel: str = "memory"):
        self.program, self.channel = program, channel
        self._sent: dict[Position, Put] = {}
        self._taken: dict[Position, Put] = {}
        self._channels: dict[Connection, Channel] = {}
        self._acquired: dict[Position, int] = {}
        self._released: dict[Position, list[int]] = defaultdict(list)
        self._find_puts()
        self._semaphores = [self._find_semaphores(each) for each in program.blocks]

    def plan(self) -> Plan:
        """The whole plan."""
        blocks = [
            [self._block(block, (gpu, number)) for number, block in enumerate(of_gpu)]
            for gpu, of_gpu in enumerate(self.program.blocks)
        ]
        semaphores = [[0] * found for found in self._semaphores]
        return Plan(self.program.name, self.program.cells, blocks, semaphores)

    def _find_puts(self) -> None:
        """Find where each message arrives; each in scratch has chunks of its own."""
        found = messages(self.program)
        scratch = [
            count(chunks_of(self.program.cells, blocks)["s_chunks"])
            for blocks in self.program.blocks
        ]
        self._number_channels(found)
        for message, how in zip(found, arrivals(self.program, found), strict=True):
            gpu, block, step = message.taken
            taken = self.program.blocks[gpu][block].steps[step]
            first = taken.target
            if how is Arrival.SCRATCH:
                numbers = [next(scratch[gpu]) for _ in range(taken.chunks)]
                first = Cell("s", numbers[0])
            target = Span(gpu, *first, taken.chunks)
            put = Put(message, how, self._channels[message[:3]], target)
            self._sent[message.sent] = self._taken[message.taken] = put

    def _number_channels(self, found: list[Message]) -> None:
        """Give each connection a channel, which both ends number in the same way."""
        numbers: dict[tuple[int, int], int] = defaultdict(int)
        for connection in sorted({message[:3] for message in found}):
            sender, receiver, _ = connection
            pair = min(sender, receiver), max(sender, receiver)
            channel = Channel(self.channel, sender, receiver, numbers[pair])
            self._channels[connection] = channel
            numbers[pair] += 1

    def _find_semaphores(self, blocks: list[Block]) -> int:
        """Number the semaphores of a GPU: one for each pair of blocks."""
        numbers: dict[tuple[int, int], int] = {}
        for number, block in enumerate(blocks):
            for step, what in enumerate(block.steps):
                if what.after is not None:
                    pair = number, what.after[0]
                    semaphore = numbers.setdefault(pair, len(numbers))
                    self._acquired[block.gpu, number, step] = semaphore
                    awaited = (block.gpu, *what.after)
                    self._released[awaited].append(semaphore)
        return len(numbers)

    # ---- blocks

    def _block(self, block: Block, place: tuple[int, int]) -> list[Operation]:
        """The operations of a block."""
        writer = BlockWriter()
        self._greet(writer, block, place)
        for step, what in enumerate(block.steps):
            position = (*place, step)
            if position in self._acquired:
                writer.acquire(self._acquired[position])
            if position in self._sent:
                self._send(writer, what, self._sent[position])
            elif position in self._taken:
                _take(writer, what, self._taken[position])
            elif what.kind != "nop":
                _inside(writer, what, block.gpu)
            released = self._released[position]
            for i in range(0, len(released), MOST):
                now = tuple(released[i : i + MOST])
                writer.add(Operation("sem_release", semaphores=now))
        return writer.operations

    def _greet(
        self, writer: "BlockWriter", block: Block, place: tuple[int, int]
    ) -> None:
        """Let the receiver of a connection tell its sender that it has begun."""
        positions = [(*place, step) for step in range(len(block.steps))]
        puts = (self._sent.get(at) or self._taken.get(at) for at in positions)
        first = next(filter(None, puts), None)
        if first is not None:
            sends = first.message.sender == block.gpu
            channel = first.channel if sends else first.channel.other_end
            kind = "rlxwait" if sends else "rlxsignal"
            writer.add(Operation(kind, channels=(channel,)))

    def _send(self, writer: "BlockWriter", what: Instruction, put: Put) -> None:
        channels = (put.channel,)
        if put.how is Arrival.READY:
            writer.add(Operation("wait", channels=channels))
        source = (Span(put.message.sender, *what.source, what.chunks),)
        if self.channel == "port":
            writer.add(Operation("pwsf", source, (put.target,), channels))
            return
        writer.add(Operation("put", source, (put.target,)))
        writer.add(Operation("signal", channels=channels))


def _take(writer: "BlockWriter", what: Instruction, put: Put) -> None:
    channels = (put.channel.other_end,)
    if put.how is Arrival.READY:
        writer.add(Operation("signal", channels=channels))
    writer.add(Operation("wait", channels=channels))
    target = Span(put.message.receiver, *what.target, what.chunks)
    if what.reduces:
        writer.add(Operation("re", (target, put.target), (target,)))
    elif put.how is Arrival.SCRATCH:
        writer.add(Operation("copy", (put.target,), (target,)))


def _inside(writer: "BlockWriter", what: Instruction, gpu: int) -> None:
    source, target = (
        Span(gpu, *end, what.chunks) for end in (what.source, what.target)
    )
    if what.kind == "re":
        writer.add(Operation("re", (target, source), (target,)))
    else:
        writer.add(Operation("copy", (source,), (target,)))


class BlockWriter:
    """Collects the operations of a block; adds the barriers that its threads need."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._threads = Threads()

    def add(self, operation: Operation) -> None:
        """Append an operation."""
        if self._threads.must_meet(operation):
            self.add(Operation("nop"))
        self._threads.add(operation)
        self.operations.append(operation)

    def acquire(self, semaphore: int) -> None:
        """Wait for a semaphore, together with others if it follows them."""
        known = self.operations[-1].semaphores if self.operations else ()
        follows = bool(known) and self.operations[-1].kind == "sem_acquire"
        if follows and semaphore not in known and len(known) < MOST:
            self.operations.pop()
        else:
            known = ()
        self.add(Operation("sem_acquire", semaphores=(*known, semaphore)))
