"""A plan as a schedule function: the steps of one rank."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from collalgo.schedule import Chunk, Chunks, Group, Kind, Step, Transfer
from collalgo.synthesis.plan import Plan

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

    def of(self, group: Group) -> Iterator[Step]:
        """The steps of a rank of a group that has all ranks of the plan."""
        mine = self._messages[group.me]
        for step in range(self.plan.steps):
            yield tuple(
                [
                    Transfer(kind, peer, self._chunks(group, runs), lane)
                    for kind, peer, runs, lane in mine[step]
                ]
            )

    @cached_property
    def _messages(self) -> dict[int, dict[int, list[Message]]]:
        """The messages of each rank in each step."""
        found: dict[int, dict[int, list[Message]]]
        found = defaultdict(lambda: defaultdict(list))
        source, target, block, unit, reduces = self.plan.transfers
        lane = self.plan.lane
        order = np.lexsort((unit, block, lane, target, source, self.plan.step))
        keys = np.stack([self.plan.step, source, target, lane])[:, order]
        ends = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
        for start, stop in pairwise([0, *ends.tolist(), len(order)]):
            chosen = order[start:stop]
            runs = [
                *_runs(zip(block[chosen].tolist(), unit[chosen].tolist(), strict=True))
            ]
            step, sender, receiver, on = keys[:, start].tolist()
            taken = Kind.RECV_REDUCE if reduces[chosen[0]] else Kind.RECV
            found[sender][step].append((Kind.SEND, receiver, runs, on))
            found[receiver][step].append((taken, sender, runs, on))
        return found

    def _chunks(self, group: Group, runs: Iterable[Run]) -> Chunks:
        """The chunks of units of a buffer."""
        return tuple(
            [
                _part(chunk, first, end, self.plan.units)
                for block, first, end in runs
                for chunk in self._block(group, block)
            ]
        )

    def _block(self, group: Group, block: int) -> Chunks:
        """The chunks of a block; the whole buffer if there is only one."""
        if self.plan.blocks == 1:
            return group.whole
        if self.plan.blocks == self.plan.size:
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
