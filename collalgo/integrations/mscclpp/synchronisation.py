"""The order of the operations of an execution plan across blocks and GPUs.

Operation k on the receiving end of a channel waits for signal k on the other end.
Blocks of a GPU synchronise at barriers, and wait for semaphores. A packet is waited for
by its reader. Every GPU begins with one node and ends with another.
"""

from bisect import bisect_left
from collections import defaultdict

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.order import Node, Order
from collalgo.integrations.mscclpp.plan import (
    PACKETS,
    SHAPES,
    SIGNALS,
    WAITS,
    Channel,
    Operation,
    Plan,
)

#: Operations on a semaphore or a barrier: their nodes, by block.
ByBlock = dict[int, list[int]]


class Synchronisation:
    """The nodes of a plan, and their dependencies.

    A barrier has two nodes: one at which its block arrives, one at which it leaves.

    Attributes
    ----------
    nodes : list of Node
        The nodes; those of a block in their order.
    operations : dict
        The operations, by their nodes.
    begin, end : list of int
        The first and the last node of each GPU.
    order, visible : Order
        The order in time, and that in which writes are seen: a relaxed signal shows
        nothing of what was written before it.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.nodes: list[Node] = []
        self.operations: dict[int, Operation] = {}
        self.begin: list[int] = []
        self.end: list[int] = []
        self._before: list[list[int]] = []
        self._relaxed: set[tuple[int, int]] = set()
        self._meetings = 0
        self._signals: dict[Channel, list[int]] = defaultdict(list)
        self._waits: dict[Channel, list[int]] = defaultdict(list)
        for gpu in range(len(plan.blocks)):
            self._add_gpu(gpu)
        self._match_signals()
        self._match_packets()
        self.order = Order(plan.name, self.nodes, self._before)
        self.visible = self._without_relaxed() if self._relaxed else self.order

    def _without_relaxed(self) -> Order:
        before = [
            [one for one in awaited if (one, node) not in self._relaxed]
            for node, awaited in enumerate(self._before)
        ]
        return Order(self.plan.name, self.nodes, before)

    # ---- nodes

    def _add(self, gpu: int, block: int, step: int, kind: str, *before: int) -> int:
        self.nodes.append(Node(gpu, block, step, kind))
        self._before.append(list(before))
        return len(self.nodes) - 1

    def _add_gpu(self, gpu: int) -> None:
        """Add the nodes of a GPU, whose blocks run between its first and last node."""
        blocks = self.plan.blocks[gpu]
        self.begin.append(first := self._add(gpu, len(blocks), 0, "begin"))
        barriers: dict[tuple[int, int], ByBlock] = defaultdict(dict)
        semaphores: dict[tuple[str, int], ByBlock] = defaultdict(dict)
        last = [first]
        for number, block in enumerate(blocks):
            node, step = first, 0
            for operation in block:
                kind = operation.kind
                if operation.barrier is not None:
                    node, step = self._add(gpu, number, step, kind, node), step + 1
                    barriers[operation.barrier].setdefault(number, []).append(node)
                node, step = self._add(gpu, number, step, kind, node), step + 1
                self._note(node, operation)
                for each in operation.semaphores:
                    semaphores[kind, each].setdefault(number, []).append(node)
            last.append(node)
        self.end.append(self._add(gpu, len(blocks) + 1, 0, "end", *last))
        self._match_barriers(gpu, barriers)
        self._match_semaphores(gpu, semaphores)

    def _match_semaphores(
        self, gpu: int, semaphores: dict[tuple[str, int], ByBlock]
    ) -> None:
        for (kind, each), acquires in [*semaphores.items()]:
            if kind == "sem_acquire":
                releases = semaphores["sem_release", each]
                self._match_semaphore(gpu, each, releases, acquires)

    def _note(self, node: int, operation: Operation) -> None:
        """Note an operation, and the channels that it uses."""
        self.operations[node] = operation
        for channel in operation.channels:
            if operation.kind in SIGNALS:
                self._signals[channel].append(node)
            if operation.kind in WAITS:
                self._waits[channel].append(node)

    # ---- edges

    def _match_barriers(
        self, gpu: int, barriers: dict[tuple[int, int], ByBlock]
    ) -> None:
        """Let every block leave a barrier after all have arrived."""
        for (number, wanted), arrivals in barriers.items():
            times = {len(nodes) for nodes in arrivals.values()}
            if len(arrivals) != wanted or len(times) > 1:
                raise self._wrong(
                    f"barrier {number} of GPU {gpu} is for {wanted} blocks, but "
                    f"used by {len(arrivals)}, {sorted(times)} times",
                    gpu,
                )
            for met in zip(*arrivals.values(), strict=True):
                self._meetings += 1
                place = len(self.plan.blocks[gpu]) + 1 + self._meetings
                meeting = self._add(gpu, place, 0, "barrier", *met)
                for node in met:
                    self._before[node + 1].append(meeting)

    def _match_semaphore(
        self, gpu: int, number: int, releases: ByBlock, acquires: ByBlock
    ) -> None:
        """Let an acquire wait for the release that it needs."""
        values = self.plan.semaphores[gpu]
        if number >= len(values):
            raise self._wrong(f"GPU {gpu} has no semaphore {number}", gpu)
        if len(acquires) > 1:
            what = f"semaphore {number} of GPU {gpu} is acquired by {len(acquires)}"
            raise self._wrong(f"{what} blocks, and no dependency orders them", gpu)
        released = [node for nodes in releases.values() for node in nodes]
        (nodes,) = acquires.values()
        for count, node in enumerate(nodes, 1 - values[number]):
            if count > len(released):
                what = f"{self.nodes[node]} waits for release {count} of semaphore"
                raise self._wrong(f"{what} {number}, which has {len(released)}", gpu)
            if count > 0 and len(releases) == 1:
                self._before[node].append(released[count - 1])
            elif count == len(released):
                self._before[node] += released

    def _match_signals(self) -> None:
        """Let each wait on a channel follow its signal."""
        for channel in {*self._signals, *(c.other_end for c in self._waits)}:
            signals = self._signals[channel]
            waits = self._waits[channel.other_end]
            if len(signals) != len(waits):
                raise self._wrong(
                    f"GPU {channel.gpu} signals GPU {channel.peer} {len(signals)} "
                    f"times on {channel.type} channel {channel.number}, and it waits "
                    f"{len(waits)} times; both must be equal",
                    channel.gpu,
                )
            for signal, wait in zip(signals, waits, strict=True):
                self._before[wait].append(signal)
                if "rlx" in self.nodes[signal].kind + self.nodes[wait].kind:
                    self._relaxed.add((signal, wait))
        self._check_one_block()

    def _check_one_block(self) -> None:
        """Check that each end of a channel belongs to one block."""
        for ends in (self._signals, self._waits):
            for channel, nodes in ends.items():
                blocks = {self.nodes[node].block for node in nodes}
                if len(blocks) > 1:
                    raise self._wrong(
                        f"blocks {sorted(blocks)} of GPU {channel.gpu} use the same "
                        f"end of {channel.type} channel {channel.number} to GPU "
                        f"{channel.peer}, and no dependency orders them",
                        channel.gpu,
                    )

    def _match_packets(self) -> None:
        """Order each reader of packets after their writers."""
        written: dict[tuple[int, Cell], int] = {}
        for node, operation in self.operations.items():
            for gpu, cell in self._packets(operation, targets=True):
                if written.setdefault((gpu, cell), node) != node:
                    raise self._wrong(
                        f"{self.nodes[node]} writes packet {cell.number} of GPU {gpu} "
                        "again, as its readers cannot see",
                        gpu,
                    )
        for node, operation in self.operations.items():
            for gpu, cell in self._packets(operation, targets=False):
                if (gpu, cell) not in written:
                    raise self._wrong(
                        f"{self.nodes[node]} waits for packet {cell.number} of GPU "
                        f"{gpu}, which nothing writes",
                        gpu,
                    )
                self._before[node].append(written[gpu, cell])

    @staticmethod
    def _packets(operation: Operation, *, targets: bool) -> list[tuple[int, Cell]]:
        polls = operation.kind != "ppkt"  # which puts packets as they are
        if operation.kind not in SHAPES or not (targets or polls):
            return []
        spans = operation.targets if targets else operation.sources
        return [
            (span.gpu, Cell(PACKETS, span.first + i))
            for span in spans
            if span.buffer == PACKETS
            for i in range(span.chunks)
        ]

    def arrival(self, node: int, channel: Channel) -> int | None:
        """The wait at the other end for the next signal after a node, if any."""
        signals = self._signals[channel]
        number = bisect_left(signals, node)
        if number == len(signals):
            return None
        here, there = self.nodes[node], self.nodes[signals[number]]
        return self._waits[channel.other_end][number] if here[:2] == there[:2] else None

    def _wrong(self, what: str, gpu: int) -> ScheduleError:
        return ScheduleError(f"{self.plan.name}: {what}", rank=gpu)
