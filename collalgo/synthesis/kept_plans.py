"""Plans kept on disk, so that later jobs on the same topology make none again.

The transfers that represent all are kept, with the digits of the ranks that turn: so a
plan is the same, and has the same proof, in a later job.

A plan depends on the code, on the figures of the topology, on the stage, its root and
the form. All of these are in its key, so that it is never out of date.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable
from math import prod
from typing import Any, TypeAlias

import numpy as np

from collalgo.base import code_identity, disk_cache
from collalgo.cost.symmetry import Symmetry
from collalgo.cost.turning import Turning
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.plan import LANES, Plan
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.tree_transfers import Transfers

#: The subfolder, the format of its files, and the most bytes of a file.
KIND, FORMAT, LARGEST = "plans", "plans/3", 1 << 22

#: The numbers of a plan on disk, and the columns of it: those of its transfers, then
#: the step and the lane. The most transfers that are read.
STORED, COLUMNS, MOST = np.dtype("<i4"), len(Transfers._fields) + 2, 1 << 20

#: A stage, its root and its form: the key of a plan of a planner.
PlanKey: TypeAlias = tuple[Any, int, Any]

#: The numbers before the columns: those of the blocks and of the digits of a rank. The
#: units of each block, the radix of each digit and whether it turns follow.
HEAD = 2


class KeptPlans:
    """The plans of some ranks.

    Parameters
    ----------
    ranks
        The identity of all inputs of the plans, except the code and their stages.
    size
        The number of ranks.
    part
        The part of the buffer that each block is; by default all are equal.
    """

    def __init__(self, ranks: str, size: int, part: Reals | None = None):
        self._ranks, self._size, self._part = ranks, size, part
        self._known: set[Hashable] = set()

    def recalled(self, stage: PlanKey) -> PlannedSteps | None:
        """The plan of a stage; None if the cache lacks it."""
        text = disk_cache.recall(KIND, self._key(stage), LARGEST)
        found = _read(text, self._size, self._part) if text else None
        if found:
            self._known.add(stage)
        return found

    def keep(self, stage: PlanKey, steps: PlannedSteps) -> None:
        """Keep the plan of a stage, unless it is; one that is too large is not kept."""
        if stage in self._known or steps.transfers > MOST or not disk_cache.keeps():
            return
        self._known.add(stage)
        plan, symmetry = steps.represented, steps.turning.symmetry
        units, (radices, turns) = plan.blocks.units, symmetry
        head = [len(units), len(radices)], units, radices, turns
        columns = [*plan.transfers, plan.step, plan.lane]
        numbers = np.concatenate([*head, *columns])
        packed = zlib.compress(numbers.astype(STORED).tobytes())
        disk_cache.keep(KIND, self._key(stage), b64encode(packed).decode(), LARGEST)

    def _key(self, stage: PlanKey) -> str:
        (make, *how), root, form = stage
        names = f"{make.__module__}.{make.__name__}", *how, root, *form
        return repr((FORMAT, code_identity.of_code(), self._ranks, *names))


def _read(text: str, size: int, part: Reals | None) -> PlannedSteps | None:
    """The plan of a text; None if it is not one of that many ranks."""
    most = (HEAD + size * (size + 2) + COLUMNS * MOST) * STORED.itemsize
    try:
        data = zlib.decompressobj().decompress(b64decode(text, validate=True), most)
        numbers = np.frombuffer(data, STORED).astype(np.int64)
        number, digits = (max(1, int(each)) for each in numbers[:HEAD])
        ends = np.cumsum([HEAD, number, digits, digits])
        _, units, radices, turns, columns = np.split(numbers, ends)
        columns = columns.reshape(COLUMNS, -1)
    except (ValueError, zlib.error):
        return None
    symmetry = _symmetry(radices, turns, size)
    known = number in (1, size, size * size) and len(units) == number
    if not known or symmetry is None:
        return None
    turning = Turning(symmetry, np.arange(0))
    if not _fits(columns, units, turning):
        return None
    equal = np.full(number, 1 / number)
    blocks = Blocks.of(units, equal if part is None else part)
    return PlannedSteps(_plan(size, blocks, columns), turning)


def _symmetry(radices: Ints, turns: Ints, size: int) -> Symmetry | None:
    """The digits of a rank; None if they are not those of that many ranks."""
    found = tuple(radices.tolist())
    if not found or len(found) != len(turns) or min(found) < 1:
        return None
    if prod(found) != size or not np.isin(turns, (0, 1)).all():
        return None
    return Symmetry(found, tuple((turns > 0).tolist()))


def _fits(columns: Ints, units: Ints, turning: Turning) -> bool:
    """Whether the numbers of each column are at least 0 and below its bound.

    Units of one buffer turn into equally many others.
    """
    size = len(turning.first)
    bounds = (size, size, len(units), units.max(), 2, MOST, LANES)
    limits = np.array(bounds)[:, None]
    if (columns < 0).any() or (columns >= limits).any() or (units < 0).any():
        return False
    block, unit = columns[2:4]
    own = units // turning.count if len(units) == 1 else units
    return bool((unit < own[block]).all())


def _plan(size: int, blocks: Blocks, columns: Ints) -> Plan:
    source, target, block, unit, reduces, step, lane = columns
    transfers = Transfers(source, target, block, unit, reduces.astype(bool))
    return Plan(size, blocks, transfers, step, lane)
