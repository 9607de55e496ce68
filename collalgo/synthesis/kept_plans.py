"""Plans kept on disk, so that later jobs on the same topology make none again.

A plan depends on the code, on the figures of the topology, on the stage, its root and
the form. All of these are in its key, so that it is never out of date.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable
from typing import Any, TypeAlias

import numpy as np

from collalgo.base import code_identity, disk_cache
from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.blocks import Blocks
from collalgo.synthesis.plan import LANES, Plan
from collalgo.synthesis.schedule import PlannedSteps
from collalgo.synthesis.tree_transfers import Transfers

#: The subfolder, the format of its files, and the most bytes of a file.
KIND, FORMAT, LARGEST = "plans", "plans/2", 1 << 22

#: The numbers of a plan on disk, and the columns of it: those of its transfers, then
#: the step and the lane. The most transfers that are read.
STORED, COLUMNS, MOST = np.dtype("<i4"), len(Transfers._fields) + 2, 1 << 20

#: A stage, its root and its form: the key of a plan of a planner.
Stage: TypeAlias = tuple[Any, int, Any]

#: The number before the columns: that of the blocks, whose units follow it.
HEAD = 1


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

    def recalled(self, stage: Stage) -> Plan | None:
        """The plan of a stage; None if the cache lacks it."""
        text = disk_cache.recall(KIND, self._key(stage), LARGEST)
        found = _read(text, self._size, self._part) if text else None
        if found:
            self._known.add(stage)
        return found

    def keep(self, stage: Stage, steps: PlannedSteps) -> None:
        """Keep the plan of a stage, unless it is; one that is too large is not kept."""
        if stage in self._known or steps.transfers > MOST or not disk_cache.keeps():
            return
        self._known.add(stage)
        plan = steps.represented.turned(steps.turning)
        columns = [*plan.transfers, plan.step, plan.lane]
        units = plan.blocks.units
        numbers = np.concatenate([[len(units)], units, *columns])
        packed = zlib.compress(numbers.astype(STORED).tobytes())
        disk_cache.keep(KIND, self._key(stage), b64encode(packed).decode(), LARGEST)

    def _key(self, stage: Stage) -> str:
        (make, *how), root, form = stage
        names = f"{make.__module__}.{make.__name__}", *how, root, *form
        return repr((FORMAT, code_identity.of_code(), self._ranks, *names))


def _read(text: str, size: int, part: Reals | None) -> Plan | None:
    """The plan of a text; None if it is not one of that many ranks."""
    most = (HEAD + size * size + COLUMNS * MOST) * STORED.itemsize
    try:
        data = zlib.decompressobj().decompress(b64decode(text, validate=True), most)
        numbers = np.frombuffer(data, STORED).astype(np.int64)
        number = max(1, int(numbers[0]))
        units, columns = np.split(numbers[HEAD:], [number])
        columns = columns.reshape(COLUMNS, -1)
    except (ValueError, IndexError, zlib.error):
        return None
    known = number in (1, size, size * size) and len(units) == number
    if not known or not _fits(columns, units, size):
        return None
    equal = np.full(number, 1 / number)
    return _plan(size, Blocks.of(units, equal if part is None else part), columns)


def _fits(columns: Ints, units: Ints, size: int) -> bool:
    """Whether the numbers of each column are at least 0 and below its bound."""
    bounds = (size, size, len(units), units.max(), 2, MOST, LANES)
    limits = np.array(bounds)[:, None]
    if (columns < 0).any() or (columns >= limits).any() or (units < 0).any():
        return False
    block, unit = columns[2:4]
    return bool((unit < units[block]).all())


def _plan(size: int, blocks: Blocks, columns: Ints) -> Plan:
    source, target, block, unit, reduces, step, lane = columns
    transfers = Transfers(source, target, block, unit, reduces.astype(bool))
    return Plan(size, blocks, transfers, step, lane)
