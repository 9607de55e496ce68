"""A plan as a schedule function: the steps of one rank."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np

from collalgo.schedule import Chunk, Chunks, Group, Kind, Step, Transfer
from collalgo.schedule.transfers import Ints
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.tree_transfers import Transfers

#: Units of a block that are next to each other: the block, the first and the end.
Run = tuple[int, int, int]

#: A message of a rank: the verb, the peer, the runs of units and the lane.
Message = tuple[Kind, int, list[Run], int]


class PlannedSteps:
    """The messages of a plan, by rank and step.

    Parameters
    ----------
    plan
        The plan.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self._units: list[int] = plan.blocks.units.tolist()
        self._of_rank: dict[int, dict[int, list[Message]]] = {}

    @property
    def nbytes(self) -> int:
        """The bytes of the plan, and about those of its sorted transfers."""
        return 2 * self.plan.nbytes

    def of(self, group: Group) -> Iterator[Step]:
        """The steps of a rank of a group that has all ranks of the plan."""
        if group.me not in self._of_rank:  # most processes need one rank only
            self._of_rank[group.me] = self._messages(group.me)
        mine = self._of_rank[group.me]
        for step in range(self.plan.steps):
            yield tuple(
                [
                    Transfer(kind, peer, self._chunks(group, runs), lane)
                    for kind, peer, runs, lane in mine[step]
                ]
            )

    @cached_property
    def _sorted(self) -> tuple[Transfers, Ints, Ints]:
        """The transfers by message, the first of each, and the keys of messages.

        A key is the step, the source, the target and the lane; the last of the first
        transfers is the number of all.
        """
        source, target, block, unit, _ = self.plan.transfers
        lane, step = self.plan.lane, self.plan.step
        order = np.lexsort((unit, block, lane, target, source, step))
        keys = np.stack([step, source, target, lane])[:, order]
        starts = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        first = np.concatenate([[0], starts]) if len(order) else starts
        transfers = Transfers._make([column[order] for column in self.plan.transfers])
        return transfers, np.append(first, len(order)), keys[:, first]

    def _messages(self, rank: int) -> dict[int, list[Message]]:
        """The messages of a rank in each step."""
        found: dict[int, list[Message]] = defaultdict(list)
        (_, _, block, unit, reduces), first, keys = self._sorted
        for number in np.flatnonzero((keys[1:3] == rank).any(axis=0)).tolist():
            some = slice(first[number], first[number + 1])
            runs = [*_runs(zip(block[some].tolist(), unit[some].tolist(), strict=True))]
            step, sender, receiver, lane = keys[:, number].tolist()
            if rank == sender:
                found[step].append((Kind.SEND, receiver, runs, lane))
            else:
                taken = Kind.RECV_REDUCE if reduces[some.start] else Kind.RECV
                found[step].append((taken, sender, runs, lane))
        return found

    def _chunks(self, group: Group, runs: Iterable[Run]) -> Chunks:
        """The chunks of units of a buffer."""
        return tuple(
            [
                _part(chunk, first, end, self._units[block])
                for block, first, end in runs
                for chunk in self._block(group, block)
            ]
        )

    def _block(self, group: Group, block: int) -> Chunks:
        """The chunks of a block; the whole buffer if there is only one."""
        if self.plan.blocks.number == 1:
            return group.whole
        if self.plan.blocks.number == self.plan.size:
            return group.chunk(group.position(block))
        source, target = map(group.position, divmod(block, self.plan.size))
        return (group.block(source, target),)


def _runs(units: Iterable[tuple[int, int]]) -> Iterator[Run]:
    """Join units that are next to each other."""
    run: Run | None = None
    for block, unit in units:
        if run and run[0] == block and run[2] == unit:
            run = block, run[1], unit + 1
            continue
        if run:
            yield run
        run = block, unit, unit + 1
    if run:
        yield run


def _part(chunk: Chunk, first: int, end: int, units: int) -> Chunk:
    """The units from ``first`` to ``end`` of a chunk."""
    width, start = chunk.stop - chunk.start, chunk.start * units
    return Chunk(
        start + width * first, start + width * end, chunk.parts * units, chunk.spare
    )
