"""A plan as a schedule function: the steps of one rank."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, reduce

import numpy as np

from collalgo.base.digest import blake2b
from collalgo.cost.messages import Messages
from collalgo.cost.turning import Turning
from collalgo.schedule import Chunk, Chunks, Group, Kind, Step, Transfer
from collalgo.schedule.transfers import Ints
from collalgo.synthesis.plan import Plan
from collalgo.synthesis.tree_transfers import Transfers

#: Units of a block that are next to each other: the block, the first and the end.
Run = tuple[int, int, int]

#: A message of a rank: the verb, the peer, the runs of units and the lane.
Message = tuple[Kind, int, list[Run], int]

#: About the bytes of a message without runs, and of a run.
MESSAGE_BYTES, RUN_BYTES = 200, 72


class PlannedSteps:
    """The messages of a plan, by rank and step.

    Parameters
    ----------
    represented
        The plan, maybe without what its transfers turn into: each rank needs its own
        ones alone.
    turning
        What the transfers turn into; by default nothing.
    """

    def __init__(self, represented: Plan, turning: Turning | None = None):
        self.represented = represented
        self.turning = turning or Turning.nothing(represented.size)
        self._units: list[int] = represented.blocks.units.tolist()
        self._of_rank: dict[int, dict[int, list[Message]]] = {}
        self._of_messages = 0  # the bytes of the messages

    @classmethod
    def of_stages(cls, stages: Sequence["PlannedSteps"]) -> "PlannedSteps":
        """The messages of plans one after the other."""
        turning, *others = [one.turning for one in stages]
        if all(np.array_equal(turning.images, one.images) for one in others):
            return cls(reduce(Plan.then, [one.represented for one in stages]), turning)
        return cls(reduce(Plan.then, [one.plan for one in stages]))

    @cached_property
    def plan(self) -> Plan:
        """The plan with all transfers."""
        return self.represented.turned(self.turning)

    @property
    def messages(self) -> Messages:
        """The messages of all ranks."""
        return self.plan.messages

    @property
    def transfers(self) -> int:
        """The number of all transfers."""
        return len(self.represented.step) * self.turning.count

    @property
    def digest(self) -> str:
        """The identity of all transfers with their steps and lanes."""
        images = np.ascontiguousarray(self.turning.images, np.int64).tobytes()
        return self.represented.digest + blake2b(images, digest_size=16).hexdigest()

    @property
    def nbytes(self) -> int:
        """About the bytes of the known transfers and of the messages of ranks."""
        plans = {id(one): one for one in (self.represented, vars(self).get("plan"))}
        of_plans = sum(one.nbytes for one in plans.values() if one is not None)
        return of_plans + self._of_messages

    def of(self, group: Group) -> Iterator[Step]:
        """The steps of a rank of a group that has all ranks of the plan."""
        if group.me not in self._of_rank:  # most processes need one rank only
            self._of_rank[group.me] = found = self._messages(group.me)
            self._of_messages += sum(map(_nbytes, found.values()))
        mine = self._of_rank[group.me]
        for step in range(self.represented.steps):
            yield tuple(
                [
                    Transfer(kind, peer, self._chunks(group, runs), lane)
                    for kind, peer, runs, lane in mine[step]
                ]
            )

    def _messages(self, rank: int) -> dict[int, list[Message]]:
        """The messages of a rank in each step."""
        found: dict[int, list[Message]] = defaultdict(list)
        (_, _, block, unit, reduces), first, keys = _sorted(
            self.represented.of_rank(rank, self.turning)
        )
        for number, key in enumerate(keys.T.tolist()):
            some = slice(first[number], first[number + 1])
            runs = [*_runs(zip(block[some].tolist(), unit[some].tolist(), strict=True))]
            step, sender, receiver, lane = key
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
        size, number = self.represented.size, len(self._units)
        if number == 1:
            return group.whole
        if number == size:
            return group.chunk(group.position(block))
        source, target = map(group.position, divmod(block, size))
        return (group.block(source, target),)


def _sorted(plan: Plan) -> tuple[Transfers, Ints, Ints]:
    """The transfers by message, the first of each, and the keys of messages.

    A key is the step, the source, the target and the lane; the last of the first
    transfers is the number of all.
    """
    source, target, block, unit, _ = plan.transfers
    order = np.lexsort((unit, block, plan.lane, target, source, plan.step))
    keys = np.stack([plan.step, source, target, plan.lane])[:, order]
    starts = np.flatnonzero((np.diff(keys) != 0).any(axis=0)) + 1
    first = np.concatenate([[0], starts]) if len(order) else starts
    transfers = Transfers._make([column[order] for column in plan.transfers])
    return transfers, np.append(first, len(order)), keys[:, first]


def _nbytes(messages: Iterable[Message]) -> int:
    """About the bytes of the messages of a step."""
    return sum(MESSAGE_BYTES + RUN_BYTES * len(runs) for _, _, runs, _ in messages)


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
