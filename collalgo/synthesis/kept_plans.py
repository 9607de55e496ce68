"""Plans kept on disk, so that later jobs on the same topology make none again.

A plan depends on the code, on the figures of the topology, on the stage, its root and
the form. All of these are in its key, so that it is never out of date.
"""

import zlib
from base64 import b64decode, b64encode

import numpy as np

from collalgo.base import code_identity, disk_cache
from collalgo.schedule.transfers import Ints
from collalgo.synthesis.plan import LANES, Plan
from collalgo.synthesis.tree_transfers import Transfers

#: The subfolder, the format of its files, and the most bytes of a file.
KIND, FORMAT, LARGEST = "plans", "plans/1", 1 << 18

#: The numbers of a plan on disk, and the columns of it: those of its transfers, then
#: the step and the lane. The most transfers that are read.
STORED, COLUMNS, MOST = np.dtype("<i4"), len(Transfers._fields) + 2, 1 << 18

#: The numbers before the columns: the number of blocks and of units.
HEAD = 2


def recalled(identity: str, size: int) -> Plan | None:
    """The kept plan of some ranks; None if the cache lacks it."""
    text = disk_cache.recall(KIND, _key(identity), LARGEST)
    return _read(text, size) if text else None


def keep(identity: str, plan: Plan) -> None:
    """Keep a plan; one that is too large is not kept."""
    columns = [*plan.transfers, plan.step, plan.lane]
    numbers = np.concatenate([[plan.blocks, plan.units], *columns])
    packed = zlib.compress(numbers.astype(STORED).tobytes())
    disk_cache.keep(KIND, _key(identity), b64encode(packed).decode(), LARGEST)


def _key(identity: str) -> str:
    return repr((FORMAT, code_identity.of_code(), identity))


def _read(text: str, size: int) -> Plan | None:
    """The plan of a text; None if it is not one of that many ranks."""
    most = (HEAD + COLUMNS * MOST) * STORED.itemsize
    try:
        data = zlib.decompressobj().decompress(b64decode(text, validate=True), most)
        numbers = np.frombuffer(data, STORED).astype(np.int64)
        blocks, units = numbers[:HEAD].tolist()
        columns = numbers[HEAD:].reshape(COLUMNS, -1)
    except (ValueError, zlib.error):
        return None
    bounds = (size, size, blocks, units, 2, MOST, LANES)
    if blocks not in (1, size, size * size) or not _fits(columns, bounds):
        return None
    return _plan(size, blocks, units, columns)


def _fits(columns: Ints, bounds: tuple[int, ...]) -> bool:
    """Whether the numbers of each column are at least 0 and below its bound."""
    limits = np.array(bounds)[:, None]
    return bool((columns >= 0).all() and (columns < limits).all())


def _plan(size: int, blocks: int, units: int, columns: Ints) -> Plan:
    source, target, block, unit, reduces, step, lane = columns
    transfers = Transfers(source, target, block, unit, reduces.astype(bool))
    return Plan(size, blocks, units, transfers, step, lane)
